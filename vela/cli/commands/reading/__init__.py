"""Commands that read logs without consuming anything."""
