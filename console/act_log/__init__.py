"""The act log as a file, for audits and spreadsheets."""
