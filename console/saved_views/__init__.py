"""Saved views: a list and its filters under a name, for one user or shared with others."""
