"""The command line `vela`: acts and reads through the console's `/api/v1`.

Every start pays for what it imports, so a command's module is imported when the command is run, and httpx and rich
inside the functions that use them.
"""
