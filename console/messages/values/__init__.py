"""Read values inside messages for filters and columns."""
