"""The console's pages.

Query counts in docstrings leave out the four queries for session, user, rights and frame.
"""
