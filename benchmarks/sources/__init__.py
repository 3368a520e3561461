"""Sources: what formulas, files and processes cost."""
