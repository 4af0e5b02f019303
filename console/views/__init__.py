"""The console's pages, one file a page: authorise, query, render."""
