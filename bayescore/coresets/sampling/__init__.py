"""Draws of rows in one pass: with replacement by rates, and of a fixed number without."""
