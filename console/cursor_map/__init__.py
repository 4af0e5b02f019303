"""The cursor map: how far a subscription has come in its topic, as a strip and as a table of its parts."""
