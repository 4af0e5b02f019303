"""The service over rows in memory: what needs neither a server nor a lost connection."""
