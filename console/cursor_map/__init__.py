"""The cursor map, which shows how far a subscription has come in its topic."""
