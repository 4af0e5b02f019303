"""The rules, one file each, grouped by where the cause is. `console.diagnosis.diagnose` ranks them."""
