"""Weights fitted to totals of the full data: where, to what, how well."""
