"""Rules that find a cause in a setting or an operator's act."""
