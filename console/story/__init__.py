"""The delivery story of one message: what happened to it on each subscription, as far as the broker recorded it."""
