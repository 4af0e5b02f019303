"""Rows of behaviour, the tests that show them, and the patches that must make those tests fail.

`make matrix` prints the rows with their tests and results; `make mutate` applies patches to a copy of the tree.
"""
