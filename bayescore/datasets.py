"""Data sets: published ones, and draws of models whose coefficients are known."""

from bayescore.data.clicks import clicks
from bayescore.data.real import load_chemreact, load_covtype, load_webspam
from bayescore.data.synthetic import binary5, binary10, mixture, probit

__all__ = [
    "binary5",
    "binary10",
    "clicks",
    "load_chemreact",
    "load_covtype",
    "load_webspam",
    "mixture",
    "probit",
]
