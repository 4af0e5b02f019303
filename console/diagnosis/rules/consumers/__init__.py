"""Diagnosis rules that look for the cause of a backlog in the consumers."""
