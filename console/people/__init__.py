"""The console's users: logins, second factors, and each user's choices for the pages."""
