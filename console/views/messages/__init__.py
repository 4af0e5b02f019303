"""Finding messages: the browser of a topic, its export, and following what comes."""
