"""Consumers against a scripted broker."""
