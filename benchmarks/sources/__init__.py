"""Sources: what do formulas, files and processes cost?"""
