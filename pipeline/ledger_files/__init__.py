"""Offloaded ledgers: one sealed ledger in one Parquet file, outside PostgreSQL."""
