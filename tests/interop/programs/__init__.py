"""One program a client. Each asks the same questions of a Vela and prints one line an answer."""
