"""The pages about alerts."""
