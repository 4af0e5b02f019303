"""The console's pages, one file for each: authorise, query, render."""
