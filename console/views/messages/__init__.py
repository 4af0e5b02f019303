"""The pages that find messages: the browser of a topic, its export, and the page that follows new messages."""
