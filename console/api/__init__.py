"""The JSON API under `/api/v1`, for programs."""
