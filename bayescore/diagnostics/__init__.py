"""Is the coreset posterior the posterior of all the data? Sums over rows, health of chains, fit of the model.

`mmd` is the distance between two sets of draws that `compare_posteriors` shows first.
"""

from bayescore.diagnostics.mmd import mmd

__all__ = ["mmd"]
