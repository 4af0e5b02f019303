"""Evaluate alert rules, and send notifications."""
