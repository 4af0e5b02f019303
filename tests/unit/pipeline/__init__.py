"""Tests of the pipeline's parts that need neither Spark nor PostgreSQL."""
