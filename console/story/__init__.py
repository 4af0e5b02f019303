"""The delivery story of one message: the recorded events of the message on each subscription."""
