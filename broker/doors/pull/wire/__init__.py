"""Parse the requests of pull clients and encode the answers."""
