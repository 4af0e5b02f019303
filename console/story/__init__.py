"""The delivery story of one message: its events on each subscription, as far as the broker recorded them."""
