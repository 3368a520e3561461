"""The weighted posterior that tests and benchmarks of the samplers share."""

import math

import numpy as np
from scipy import special

from bayescore.families.family import FAMILIES
from bayescore.types import WeightedData


def problem(family: str, positive: float, seed: int = 0) -> WeightedData:
    """Return M = 200 rows of D = 10 features with weights from 0.05 to 5000, some of them 1.

    A hundred points of the design are there with both labels, the weight being shared as the model has it, so that the
    data are not separable; `positive` is about the share of the positive label.
    """
    rng = np.random.Generator(np.random.PCG64(seed))  # the same rows under every shift: references are known of them
    X = np.column_stack([np.ones(100), rng.normal(size=(100, 9))])
    beta = np.concatenate([[0.0], rng.normal(size=9) / 6])
    beta[0] = -special.logit(1 - positive) if family == "logistic" else special.ndtri(positive)
    p = FAMILIES[family].mean(X @ beta)
    total = np.exp(rng.uniform(math.log(0.2), math.log(5000), 100))
    weights = np.clip(np.concatenate([total * p, total * (1 - p)]), 0.05, 5000)
    weights[::20], weights[1::20], weights[2] = 1.0, 0.05, 5000.0
    y = np.repeat([1, -1], 100).astype(np.int8)
    return WeightedData(np.vstack([X, X]), y, weights, np.arange(200))
