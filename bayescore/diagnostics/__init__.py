"""Is the coreset posterior the posterior of all the data? Errors, verdicts, plots and the report.

`compare` judges posteriors against a reference and returns a `Comparison`; `mmd` is the distance between two sets
of draws that it shows first.
"""

from bayescore.diagnostics.compare import Comparison, compare
from bayescore.diagnostics.mmd import mmd

__all__ = ["Comparison", "compare", "mmd"]
