"""The pipeline's parts without Spark and PostgreSQL."""
