"""Merge and reduce: trees of reductions over streams and sources."""
