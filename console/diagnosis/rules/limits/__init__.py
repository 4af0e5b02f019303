"""Causes that an operator or a setting makes: a pause, a limit, a rate, a quota."""
