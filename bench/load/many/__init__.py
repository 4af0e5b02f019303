"""Loads with very many connections, topics, clients, or rows in the console's lists."""
