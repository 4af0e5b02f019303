"""Consumers against a whole Vela, over TCP and over WebSocket."""
