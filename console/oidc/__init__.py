"""Login at an OpenID Connect server: the authorization code flow with PKCE, and the roles that a user's groups give."""
