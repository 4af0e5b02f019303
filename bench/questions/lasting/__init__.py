"""Questions that need minutes: what stays as it is, and what comes between."""
