"""Tests that the documentation names what the code has: settings, commands, metrics and so on."""
