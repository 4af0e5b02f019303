"""Small programs that know their client as `api`: Apache's `pulsar`, or `vela`."""
