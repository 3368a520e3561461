"""Whether and how nearly rows are linearly separable."""
