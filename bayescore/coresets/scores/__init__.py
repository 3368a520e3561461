"""Scores of rows, and bounds of their sensitivities: by leverage and by clustering."""
