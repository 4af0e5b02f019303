"""No cause: the subscription is fine, or nothing can be said yet."""
