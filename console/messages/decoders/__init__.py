"""Decode the bytes of a payload: compression, schemas, JSON, Avro, MessagePack, text, and a hexadecimal dump."""
