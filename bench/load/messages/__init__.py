"""What is sent: entries and frames, made before the run."""
