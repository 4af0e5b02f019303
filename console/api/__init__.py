"""`/api/v1`: acts and reads as JSON, for programs. Described by `/api/v1/openapi.json`."""
