"""Alerts: a round that evaluates every rule, and the code that sends notifications."""
