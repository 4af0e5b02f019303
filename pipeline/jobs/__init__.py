"""Jobs: each a function over a Spark session and a command line around it."""
