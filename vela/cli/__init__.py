"""The command line `vela`: messages go through the client library, acts and reads through the console's `/api/v1`.

Imports make every start slower. So a command's module is imported when the command runs, and httpx, rich and `vela.aio`
are imported inside the functions that use them.
"""
