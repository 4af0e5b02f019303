"""The pages of a login: password, code or set-up of a second factor, and the login server."""
