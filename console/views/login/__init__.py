"""The login pages."""
