"""`fit`, one verb from rows to a posterior that can be used, and `Fit`, the object that answers questions of it."""

from bayescore.fitting.fit import fit, last_fit, read_fit
from bayescore.fitting.result import Fit

__all__ = ["Fit", "fit", "last_fit", "read_fit"]
