r"""Draws of all parameters but groups' effects in units of the data's own columns, and tables of them.

Where effects of a column vary by group and columns are standardised, the effects of the intercept are at the columns'
means. In units of the data they are at 0:

.. math:: u^c_j = u_j / s_j, \qquad u^c_1 = u_1 - \sum_j u_j m_j / s_j, \qquad S^c = A S A'

for column j of mean m_j and sd s_j, S the covariance of the effects, A the matrix of the linear map.
"""

import numpy as np
import pandas as pd

from bayescore.data.design import Design, Grouping
from bayescore.diagnostics.mcse import ess, rhat
from bayescore.models.predictor import Factor
from bayescore.samplers.inference_data import Posterior
from bayescore.samplers.row_quantiles import row_quantiles
from bayescore.types import FloatArray
from bayescore.validation import check_positive


def raw_effects_map(design: Design, grouping: Grouping) -> FloatArray:
    """Return A, shape (q, q), which takes effects of columns of the design to those of raw columns."""
    A = np.eye(len(grouping.effects))
    if design.center is None:
        return A
    scales, lead = design.scales, int(design.intercept)
    for j, effect in enumerate(grouping.effects):
        if effect != "1":
            d = design.names.index(effect)
            A[j, j] = 1.0 / scales[d]
            if "1" in grouping.effects:
                A[grouping.effects.index("1"), j] = -design.center[d - lead] / scales[d]
    return A


def parameters(posterior: Posterior) -> tuple[list[str], FloatArray]:
    """Return names and draws, shape (chain, draw, K), of coefficients, sds and correlations of groups' effects."""
    design, chains = posterior.design, posterior.draws.shape[:2]
    assert design is not None
    names, draws = list(posterior.features), [np.asarray(design.raw_coefficients(posterior.draws))]
    for own in design.groups if posterior.terms else ():
        covariance, A = Factor.of(own, posterior.variables).covariance, raw_effects_map(design, own)
        assert covariance is not None
        raw = A @ covariance @ A.T
        sd = np.sqrt(np.einsum("sqq->sq", raw))
        named = [f"sigma_{own.name}"]
        if len(own.effects) > 1:
            named = [f"sigma_{own.name}[{effect}]" for effect in own.effects]
        i, j = np.triu_indices(len(own.effects), 1)
        rho = raw[:, i, j] / (sd[:, i] * sd[:, j])
        pairs = zip(i, j, strict=True)
        names += named + [f"rho_{own.name}[{own.effects[a]},{own.effects[b]}]" for a, b in pairs]
        draws += [each.reshape(*chains, -1) for each in (sd, rho)]
    return names, np.concatenate(draws, axis=2)


def interval_names(prob: float) -> tuple[str, str, float]:
    """Return the names of an equal-tailed interval's ends, and the probability of either tail."""
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    return f"{100.0 * tail:g}%", f"{100.0 * (1.0 - tail):g}%", tail


def described(draws: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of draws, shape (K, S), by name, shape (K,) each."""
    low, high, tail = interval_names(prob)
    ends = row_quantiles(draws, np.array([tail, 1.0 - tail]))
    mean = draws.mean(axis=1)
    rest = draws - mean[:, None]
    sd = np.sqrt(np.vecdot(rest, rest) / (draws.shape[1] - 1))
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def table(names: list[str], draws: FloatArray, prob: float) -> pd.DataFrame:
    """Return mean, sd, interval, effective sample sizes and R-hat of draws, shape (chain, draw, K)."""
    found = described(draws.reshape(-1, draws.shape[2]).T, prob)
    chains = {"ess_bulk": ess(draws, "bulk"), "ess_tail": ess(draws, "tail"), "rhat": rhat(draws)}
    return pd.DataFrame({**found, **chains}, index=pd.Index(names, name="parameter"))
