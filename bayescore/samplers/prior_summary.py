"""What prior each coefficient was given, and what that is in units of the data where columns were standardised.

A prior of location m and scale s of a standardised column is one of location m / sd and scale s / sd of the column
itself, sd the column's standard deviation. That of the intercept is of the linear predictor where all columns are at
their means, as in rstanarm's and brms's `prior_summary`.
"""

from typing import Any

import numpy as np
import pandas as pd

from bayescore.models.group_priors import LKJ_ETA, GroupPrior
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.grouped import group_prior_of
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.validation import DataError


def prior_summary(idata: Any) -> pd.DataFrame:
    """Return the prior of each coefficient, as it was given and in units of the data.

    Parameters
    ----------
    idata : InferenceData
        What `sample` returned for a coreset.

    Returns
    -------
    DataFrame
        A row for each coefficient, columns `prior` and `in_data_units`; the two differ where the coreset was built
        with ``standardize=True``. Of a `MultivariateNormal` prior the marginal ones. With groups also a row for the sd
        of each kind of effect, and for the correlations of those of one factor.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or does not tell its prior.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = 10.0 * rng.normal(size=(2000, 1))
    >>> core = bc.all_rows(X, rng.random(2000) > 0.5, intercept=True, standardize=True, progressbar=False)
    >>> prior = {"Intercept": bc.priors.StudentT(3)}
    >>> idata = bc.sample(core, prior=prior, sampler="mala", random_seed=1, progressbar=False)
    >>> bc.prior_summary(idata)["prior"].to_dict()
    {'Intercept': 'StudentT(nu=3, mu=0, sigma=2.5)', 'x0': 'Normal(mu=0, sigma=4)'}
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    found = described(posterior)
    if found is None:
        raise DataError("idata does not tell its prior; give what bayescore.sample returned for a coreset")
    return pd.concat([found, _of_groups(posterior)])


def described(posterior: Posterior) -> pd.DataFrame | None:
    """Return `prior_summary`; None where the prior is not known."""
    if not posterior.story:
        return None
    prior, D = prior_from_dict(posterior.story["prior"]), len(posterior.features)
    each = [prior.of_coefficient(d, name, D) for d, name in enumerate(posterior.features)]
    design, scales, constant = posterior.design, np.ones(D), None
    if design is not None and design.scale is not None:
        scales, constant = design.scales, design.constant
    raw = [_text(own, scale) for own, scale in zip(each, scales, strict=True)]
    if constant is not None:
        raw[constant] = f"{_text(each[constant])}, at the columns' means"
    index = pd.Index(posterior.features, name="feature")
    return pd.DataFrame({"prior": [_text(own) for own in each], "in_data_units": raw}, index=index)


def _of_groups(posterior: Posterior) -> pd.DataFrame:
    """Return the priors of sds and correlations of effects of groups, with the columns of `described`."""
    rows, prior, design = {}, group_prior_of(posterior.attrs), posterior.design
    for own in () if prior is None or design is None else design.groups:
        assert prior is not None
        assert design is not None
        several = len(own.effects) > 1
        at = ", at the columns' means" if several and design.scale is not None else ""
        for effect in own.effects:
            name = f"sigma_{own.name}[{effect}]" if several else f"sigma_{own.name}"
            scale = 1.0 if effect == "1" else float(design.scales[design.names.index(effect)])
            rows[name] = _group_text(prior), f"{_group_text(prior, scale)}{at if effect == '1' else ''}"
        if several:
            rows[f"rho_{own.name}"] = f"LKJ(eta={LKJ_ETA:g})", f"LKJ(eta={LKJ_ETA:g}){at}"
    index = pd.Index(list(rows), name="feature", dtype=object)
    return pd.DataFrame(list(rows.values()), index=index, columns=["prior", "in_data_units"])


def _group_text(prior: GroupPrior, scale: float = 1.0) -> str:
    shown = {name: value / scale if name == "sigma" else value for name, value in prior.parameters().items()}
    return f"{type(prior).__name__}({', '.join(f'{name}={value:.4g}' for name, value in shown.items())})"


def _text(prior: Prior, scale: float = 1.0) -> str:
    """Return the class and the parameters of a coefficient's prior, in units `scale` times as large."""
    own = {key: value for key, value in prior.parameters().items() if not isinstance(value, bool)}
    shown = {key: value / scale if key in prior.in_units else value for key, value in own.items()}
    return f"{type(prior).__name__}({', '.join(f'{key}={value:.4g}' for key, value in shown.items())})"
