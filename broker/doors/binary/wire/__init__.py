"""The broker's end of Pulsar's binary protocol, without I/O."""
