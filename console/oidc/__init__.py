"""Login at an OpenID Connect server, with roles from the user's groups."""
