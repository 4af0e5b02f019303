"""The findings when no cause matches: the subscription is fine, or only the symptom is known."""
