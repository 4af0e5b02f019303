"""The rules, one file each, grouped by what is to blame. `console.diagnosis.diagnose` ranks them."""
