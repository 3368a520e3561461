"""Rows of several grouping factors, or of effects of columns, condensed by cell: see `condense`."""
