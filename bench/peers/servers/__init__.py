"""Start the servers that are compared, one file each, and describe them."""
