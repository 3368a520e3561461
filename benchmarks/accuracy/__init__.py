"""Accuracy: how near the posterior of a coreset is to that of all rows."""
