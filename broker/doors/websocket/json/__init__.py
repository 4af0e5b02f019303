"""The part of Pulsar's WebSocket API, with Vela's extensions, that does no I/O and reads no clock.

It reads the options of a handshake, decodes and encodes frames, and keeps count of messages, acks and permits.
"""
