"""The cursor map, which shows a subscription's progress through its topic."""
