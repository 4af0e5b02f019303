"""The documentation, served by the console itself: it needs no internet, no login and no database."""
