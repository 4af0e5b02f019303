"""Rules about causes in processes, the database and the log."""
