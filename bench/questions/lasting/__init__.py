"""Questions that need minutes: whether resources stay flat, and what disturbances cost."""
