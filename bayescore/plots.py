"""Pictures of group effects."""

from bayescore.diagnostics.effect_plots import plot_caterpillar, plot_shrinkage

__all__ = [
    "plot_caterpillar",
    "plot_shrinkage",
]
