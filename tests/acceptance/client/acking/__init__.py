"""What a consumer does with the messages it took: against a whole Vela, over TCP and over WebSocket (S4)."""
