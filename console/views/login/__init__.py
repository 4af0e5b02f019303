"""The pages of a login."""
