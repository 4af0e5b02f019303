"""The console's users: logins, second factors, and what a user has chosen for pages."""
