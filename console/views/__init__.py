"""The console's pages, one file for each: authorise, query, render.

Numbers of queries in docstrings leave out the four that every page makes: session, user, rights and frame.
"""
