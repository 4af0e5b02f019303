"""The findings when no cause matches: the subscription is fine, or the symptom is all that can be said."""
