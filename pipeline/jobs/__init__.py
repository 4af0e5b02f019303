"""Jobs. The module that the catalogue names for a job has a function `run`, which `python -m pipeline` calls."""
