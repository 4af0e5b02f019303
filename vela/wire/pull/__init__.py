"""Long-poll pull over HTTP: what both sides speak, and how the client reads an answer."""
