"""The user of a page: how the user is loaded, and the user's time zone."""
