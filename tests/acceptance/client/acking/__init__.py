"""Acks, negative acks and ack timeouts against a whole Vela, over TCP and over WebSocket (S4)."""
