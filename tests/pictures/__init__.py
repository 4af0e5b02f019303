"""Pictures of every page of the console, taken of a Vela with the work of a whole company in it."""
