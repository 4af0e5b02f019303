"""Live updates: server-sent events tell a page which of its blocks to read again."""
