"""What Vela does on a machine, measured beside what the machine can do (METHODOLOGY.md)."""
