"""The pages about clients: connected consumers, connected producers, and tokens."""
