"""Questions that operators ask: what an idle Vela costs, and how their requests slow down messages."""
