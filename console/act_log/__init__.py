"""Export the log of changes, for audits and spreadsheets."""
