"""The sans-I/O part of Pulsar's WebSocket API v2 (and Vela's documented extensions to it).

`paths` and `options` read the handshake, `producer`, `consumer` and `reader` decode client frames and encode
what the server sends, `window` keeps flow control, `batch_acks` turns acks of single messages into acks of
entries, `errors` has the numbers and close codes. Nothing here does I/O or reads a clock.
"""
