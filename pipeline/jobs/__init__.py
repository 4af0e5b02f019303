"""Jobs. Each is a function that takes a Spark session, with a command line around it."""
