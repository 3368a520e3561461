"""Formulas: from a line of text and raw columns to a design matrix, the same for any source and any cuts into blocks.

`formulaic` parses formulas, decides how factors are coded and evaluates terms; here are what it may evaluate
(`parsing`), what a pass must learn first (`learning`), blocks as its data (`blocks`), and the `Design` that keeps what
was learnt as JSON (`design`). It is imported when a formula is first used: that takes a second.
"""
