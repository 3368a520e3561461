"""Formulas: from a line of text and raw columns to a design matrix, the same for any source and any cut into blocks.

`formulaic` parses formulas, codes factors and evaluates terms. It is imported when a formula is first used: that takes
a second.
"""
