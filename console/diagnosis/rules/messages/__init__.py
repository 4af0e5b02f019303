"""Diagnosis rules about messages."""
