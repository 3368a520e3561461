r"""One fit of several completed tables, as multiple imputation of missing entries makes them.

.. math:: p(\theta \mid y_{obs}) \approx \frac1M \sum_m p(\theta \mid y_{obs}, y_{mis}^{(m)})

All tables are fitted in the design of the first, under one prior in its columns, so that coefficients mean the same.
Draws of the mixture are as many of each table's posterior. Its certificate is the worst one.

Reference: Gelman et al. (2013), Bayesian Data Analysis, third edition, section 18.2; Rubin (1987), Multiple Imputation
for Nonresponse in Surveys.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayescore.compat import as_xarray
from bayescore.diagnostics.results import Level
from bayescore.fitting.route import Step
from bayescore.models.groups.effects import EffectDraws
from bayescore.validation import DataError

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

_LEVELS = (Level.CERTIFIED, Level.CORRECTED, Level.NOT_CERTIFIED)  # from best to worst


def tables_of(data: Any) -> list[Any]:
    """Return completed tables, at least two."""
    if not isinstance(data, list | tuple) or len(data) < 2:
        what = f"{len(data)} of them" if isinstance(data, list | tuple) else f"a {type(data).__name__}"
        raise TypeError(f"imputed=True is of a list of two or more completed tables, and data is {what}")
    return list(data)


def pooled(fits: "Sequence[Fit]") -> "Fit":
    """Return the worst of some fits, by certificate, with the draws of all."""
    first, M = fits[0], len(fits)
    for k, fit in enumerate(fits):
        if fit.coreset.design != first.coreset.design:
            raise DataError(
                f"data[{k}] has groups that data[0] has not, so that their effects cannot be pooled: put a table that "
                "has all levels first, or impute within the levels that are there"
            )
        if any(isinstance(own, EffectDraws) for own in fit._posterior().variables.values()):
            raise DataError("groups are too many for their effects' draws to be kept, and so to be pooled; fit a table")
    worst = max(fits, key=lambda fit: (_LEVELS.index(fit.certificate.level), fit.certificate.mean_bound))
    rows, passes = worst.coreset.n_total, sum(step.passes for fit in fits for step in fit.story)
    seconds = sum(step.seconds for fit in fits for step in fit.story)
    step = Step("pool", rows, passes, seconds, f"{M} imputed tables; the steps above are those of the worst")
    text, draws = f"Of {M} imputed tables this is the worst: {worst.certificate.text}", [fit._used for fit in fits]
    own: dict[str, Any] = {
        "certificate": replace(worst.certificate, text=text),
        "_given": None,
        "_kept": (),
        "_seed": first._seed,
    }
    return replace(worst, _robust=_mixture(draws, f"pooled over {M} imputed tables"), story=(*worst.story, step), **own)


def _mixture(each: Sequence[Any], text: str) -> Any:
    """Return as many draws of each posterior, as chains after each other."""
    sets = [as_xarray(idata["posterior"]) for idata in each]
    n_chains, n_draws = (min(own.sizes[dim] for own in sets) for dim in ("chain", "draw"))
    parts = []
    for k, own in enumerate(sets):
        places = np.linspace(0, own.sizes["draw"] - 1, n_draws).round().astype(np.int64)
        part = own.isel(chain=slice(n_chains), draw=places)
        parts.append(part.assign_coords(chain=np.arange(n_chains) + k * n_chains, draw=np.arange(n_draws)))
    found = xr.concat(parts, dim="chain", data_vars="minimal", coords="minimal", compat="override", join="exact")
    attrs = {name: value for name, value in sets[0].attrs.items() if name != "posterior_of"}
    found.attrs = {**attrs, "spread": text}
    idata = each[0].copy()
    for group in ("sample_stats", "constant_data", "warmup_posterior"):  # of one table
        if group in idata:
            del idata[group]
    idata["posterior"] = found
    return idata
