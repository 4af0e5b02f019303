"""Rules about causes that an operator or a setting makes."""
