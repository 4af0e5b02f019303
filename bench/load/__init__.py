"""Load generators that cost little themselves."""
