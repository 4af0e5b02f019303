"""What the bytes of a payload mean: compression, schemas, JSON, Avro, MessagePack, text, and a hexadecimal dump."""
