"""The broker's end of Pulsar's binary protocol. It turns bytes into events, and answers into bytes, without any I/O."""
