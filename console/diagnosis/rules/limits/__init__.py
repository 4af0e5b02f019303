"""Rules about causes that come from an operator or a setting."""
