"""The broker's end of Pulsar's binary protocol: bytes to events, answers to bytes. No I/O, no clock."""
