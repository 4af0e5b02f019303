"""Causes that somebody set: a pause, a limit, a rate, a quota."""
