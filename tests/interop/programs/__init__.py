"""One program for each client. Each asks the same questions of a Vela and prints one line per answer."""
