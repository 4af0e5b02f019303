"""The user of a page: how the user is loaded, and what the user has chosen for pages."""
