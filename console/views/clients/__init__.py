"""Connected clients over all topics."""
