"""Export the act log, for audits and spreadsheets."""
