"""The data source: topics as DataFrames and streams."""
