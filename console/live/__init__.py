"""Live updates: server-sent events tell a page which of its parts to load again."""
