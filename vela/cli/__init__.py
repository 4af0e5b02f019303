"""The command line `vela`: messages through the SDK, acts and reads through the console's `/api/v1`.

Every start pays for what it imports, so a command's module is imported when the command is run, and httpx, rich and
`vela.aio` inside the functions that use them.
"""
