"""The part of Pulsar's WebSocket API, with Vela's extensions, that does no I/O and reads no clock.

`paths`, `options` and `encryption` read the handshake. `producer`, `consumer` and `reader` decode client frames and
encode the server's frames, with the help of `frames`. `window` has the flow control, `batch_acks` turns acks of single
messages into acks of entries, and `errors` has the error numbers and close codes.
"""
