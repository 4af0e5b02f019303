"""The console's pages. Each view checks the user's rights, queries and renders.

Numbers of queries in docstrings leave out the four for session, user, rights and frame.
"""
