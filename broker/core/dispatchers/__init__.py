"""Dispatchers decide which consumer gets which entry. The type of a subscription selects its dispatcher."""
