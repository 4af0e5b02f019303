"""Clients in four languages against a started Vela: `make interop`."""
