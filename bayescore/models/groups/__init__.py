"""Models with grouping factors: the density of coefficients and effects, jointly or with effects integrated out."""
