"""Rivals: what the same work costs elsewhere, and who is nearer."""
