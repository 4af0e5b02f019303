"""Small programs that run with either client: `api` is Apache's module `pulsar`, or `vela`."""
