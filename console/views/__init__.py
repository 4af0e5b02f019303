"""The console's pages.

Numbers of queries in docstrings leave out the four for session, user, rights and frame.
"""
