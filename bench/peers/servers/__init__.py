"""The servers that are compared, one file each: how to start it, where it is, which processes are its own."""
