"""Dispatchers decide which consumer gets which entry. Each subscription has one, chosen by its type."""
