r"""Whose draws are these? Nothing is certified of draws that are not those of the coreset's posterior.

`sample` keeps with its draws a digest of the coreset's rows, the prior, the likelihood and a digest of the draws. Draws
that are no longer the same bits are a subset (a slice, thinned, a chain less), or were changed: then the log density
that the sampler stored must be that of the coreset's posterior at each draw, up to one constant for all. Chains that
repeat each other are seen by comparison.

All draws are held to Stein's identities of the density p that they are said to have, g its log's gradient at theta:

.. math:: \mathrm E\, g = 0, \qquad \mathrm E\, (\theta - \bar\theta)(K g)' = -K

for any matrix K; with K near the covariance, K mean(g) is how far the draws' mean is from p's and the second says by how
much their variances are off. Each may miss by `CLOSE` and by what Monte Carlo error explains. Draws that were not made
by `sample`, whose prior is not known, must meet them with the prior left out: they are then the posterior under any
prior that matters little.

Reference: Stein (1972), Proc. Sixth Berkeley Symp. 2, 583-602; Gorham and Mackey (2015), Measuring sample quality with
Stein's method, NeurIPS.
"""

import json
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.draws import ess_mean
from bayescore.diagnostics.errors import sidak_quantile
from bayescore.diagnostics.wording import number
from bayescore.limits import CLOSE
from bayescore.models.density import prior_terms
from bayescore.models.posterior import log_likelihoods
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.inference_data import Posterior, draws_digest
from bayescore.types import FloatArray, Likelihood

COPIED = 0.01  # share of a chain's draws that stand in another one: continuous draws never meet
_LOOKED_AT = 100  # draws whose stored log density is computed anew
_DENSITY = 1e-3  # nats by which that may differ; a shift by 0.01 sd in one coordinate shows
_ROUNDING = 1e-9  # of the log density's own size
_STEIN_DRAWS = 1000
_CELLS = 1 << 22  # entries of a (rows, draws) block


@dataclass(frozen=True)
class Origin:
    """What is known of draws.

    Parameters
    ----------
    prior : prior, optional
        The prior that they were drawn under; None where it is not known or has no density in closed form.
    ours : bool
        Whether `sample` drew them from this coreset, and nobody changed them.
    trouble : str
        Why nothing can be certified of them; empty if nothing is.
    """

    prior: Prior | None
    ours: bool
    trouble: str = ""


def origin_of(posterior: Posterior, core: Coreset, link: Likelihood) -> Origin:
    """Return what the draws' attributes, their log densities and a comparison of the chains tell."""
    told = json.loads(posterior.attrs.get("posterior_of", "{}"))
    prior = prior_from_dict(told["prior"]) if "prior" in told else None
    known = prior if prior is not None and prior.family is not None else None
    if "corrected" in posterior.attrs:
        return Origin(known, False, "The draws are corrected ones already; certify the posterior that they came from.")
    if told and told["rows"] != core.rows_digest:
        return Origin(
            known, False, "The draws are of another coreset's posterior, or the coreset was changed; sample this one."
        )
    copies = _copies(posterior.draws)
    if copies is not None:
        return Origin(
            known,
            False,
            f"Chain {copies[1]} repeats draws of chain {copies[0]}: they are one run. Drop the copies, or sample again "
            "with another seed for each chain.",
        )
    if not told:
        return Origin(None, False)
    if told["draws"] == draws_digest(posterior.draws):
        return Origin(known, True)
    if known is None or posterior.log_density is None:
        return Origin(known, False)
    gap = _density_gap(posterior, posterior.log_density, core, link, known)
    if gap > 0.0:
        return Origin(
            known,
            False,
            "The draws were changed after sampling: the log densities stored with them are not those of the coreset's "
            f"posterior there, by {number(gap, 2)} nats. Certify what sample returned, or parts of it.",
        )
    return Origin(known, True)


def log_prior(draws: FloatArray, prior: Prior) -> FloatArray:
    """Return the log prior density at draws of shape (S, D)."""
    assert prior.family is not None
    table, scratch = prior.table(draws.shape[1]), np.empty((2, draws.shape[1]))
    return np.array([prior_terms(point, prior.family, table, scratch[0], scratch[1]) for point in draws])


def stein_trouble(
    posterior: Posterior, core: Coreset, link: Likelihood, prior: Prior | None, scale: FloatArray | None = None
) -> str:
    """Return how the draws miss Stein's identities of the coreset's posterior; empty if they meet them.

    Parameters
    ----------
    posterior : Posterior
        The draws.
    core : Coreset
        The rows of the density that they are held to.
    link : Likelihood
        Their likelihood.
    prior : prior, optional
        The density's prior; None leaves it out.
    scale : array, shape (D, D), optional
        K; by default the draws' covariance.
    """
    chains = posterior.thinned(_STEIN_DRAWS)
    flat = chains.reshape(-1, chains.shape[2])
    K = np.atleast_2d(np.cov(posterior.flat, rowvar=False)) if scale is None else scale
    width = np.sqrt(np.diagonal(K))
    if not (width > 0.0).all():
        return f"{posterior.features[int(width.argmin())]!r} never moves: the chains are stuck; tune longer."
    moves = (gradients(flat, core, link, prior) @ K).reshape(chains.shape)
    centred = chains - flat.mean(axis=0)
    families = {
        "means": (moves / width, " sd"),
        "variances": (-centred * moves / width**2 - 1.0, " of themselves"),
    }
    quantile = sidak_quantile(2 * flat.shape[1])
    for what, (terms, unit) in families.items():
        off = terms.mean(axis=(0, 1))
        mcse = terms.std(axis=(0, 1), ddof=1) / np.sqrt(np.minimum(ess_mean(terms), len(flat)))
        excess = np.abs(off) - quantile * mcse - CLOSE
        if (excess > 0.0).any():
            i = int(excess.argmax())
            against = (
                "prior and coreset" if prior is not None else "the coreset alone, under a prior that matters little"
            )
            return (
                f"The draws are not those of the posterior of {against}: the {what} miss Stein's identity by "
                f"{number(abs(off[i]), 2)} ± {number(mcse[i], 1)}{unit} in {posterior.features[i]!r}. "
                + ("Sample again, with longer warm-up." if prior is not None else "Give model=, which knows the prior.")
            )
    return ""


def gradients(draws: FloatArray, core: Coreset, link: Likelihood, prior: Prior | None) -> FloatArray:
    """Return the gradient of the coreset's log posterior density at draws, both of shape (S, D)."""
    total = np.zeros_like(draws)
    Z, step = core.Z, max(1, _CELLS // len(draws))
    for start in range(0, len(Z), step):
        rows = slice(start, start + step)
        total += (link.score(draws @ Z[rows].T) * core.weights[rows]) @ Z[rows]
    if prior is not None:
        assert prior.family is not None
        table, scratch, own = prior.table(draws.shape[1]), np.empty(draws.shape[1]), np.empty(draws.shape[1])
        for i, point in enumerate(draws):
            prior_terms(point, prior.family, table, own, scratch)
            total[i] += own
    return total


def _copies(draws: FloatArray) -> tuple[int, int] | None:
    """Return two chains of which one repeats draws of the other, if there are any."""
    rows = [{point.tobytes() for point in chain} for chain in draws]
    for first, second in combinations(range(len(rows)), 2):
        if len(rows[first] & rows[second]) > COPIED * min(len(rows[first]), len(rows[second])):
            return first, second
    return None


def _density_gap(posterior: Posterior, stored: FloatArray, core: Coreset, link: Likelihood, prior: Prior) -> float:
    """Return by how much stored log densities differ from the posterior's, a constant apart; 0 within rounding."""
    each = np.linspace(0, stored.size - 1, min(_LOOKED_AT, stored.size)).round().astype(np.int64)
    draws, values = posterior.flat[each], stored.ravel()[each]
    gap = values - log_likelihoods(draws, core, link) - log_prior(draws, prior)
    worst = float(np.abs(gap - np.median(gap)).max())
    return worst if worst > _DENSITY + _ROUNDING * float(np.abs(values).max()) else 0.0
