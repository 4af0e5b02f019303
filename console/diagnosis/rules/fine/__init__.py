"""Diagnosis rules that apply if no other rule has found a cause."""
