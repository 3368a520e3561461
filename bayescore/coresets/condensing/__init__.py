"""Pseudo-rows: few weighted rows with offsets that meet averaged totals of many (see `condensed`)."""
