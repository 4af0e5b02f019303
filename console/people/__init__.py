"""The console's users, with their logins, second factors and preferences."""
