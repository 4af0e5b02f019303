"""Clients in four languages and two tools for administrators against a started Vela: `make interop`."""
