"""The service under random clients, operators and crashes, against a naive model."""
