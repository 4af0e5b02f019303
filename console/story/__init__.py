"""The delivery story of one message: its recorded events on each subscription."""
