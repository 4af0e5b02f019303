"""Frames and options of Pulsar's WebSocket API. This package does no I/O and reads no clock."""
