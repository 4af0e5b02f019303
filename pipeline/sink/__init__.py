"""The sink: writes DataFrames and streams to topics."""
