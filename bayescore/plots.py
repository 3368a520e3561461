"""Pictures of group effects of any posterior: caterpillar (lme4, bayesplot; a forest plot in ArviZ) and shrinkage."""

from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bayescore.fitting import Fit
from bayescore.report import pictures
from bayescore.samplers.summaries import read_effects

__all__ = ["plot_caterpillar", "plot_shrinkage"]


def plot_caterpillar(idata: Any, *, var_name: str | None = None, effect: str | None = None) -> Axes:
    """Plot mean and 95% equal-tailed interval of each group's effect, sorted.

    Of more than 60 groups the five at either end have names. `az.plot_forest` has other looks.

    Parameters
    ----------
    idata : InferenceData or Fit
        Draws of `sample` or `model`, or of a model of your own; or a fit, whose slopes are in units of the data, see
        `Fit.plot_caterpillar`.
    var_name : str, optional
        Variable with the effects, by default `u_g` of the only factor g; dims chain, draw, one of groups, and one of
        effects where several vary.
    effect : str, optional
        "1" for the intercept, the default, or what has slopes that vary.

    Returns
    -------
    Axes
        Of a new figure.

    Raises
    ------
    TypeError, DataError
        If `idata` has no such variable.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=2000), "county": rng.integers(0, 10, 2000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=2000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> bc.plots.plot_caterpillar(idata).get_xlabel()
    'effect of county: mean and 95% interval, log odds'
    """
    if isinstance(idata, Fit):
        return idata.plot_caterpillar(_factor(var_name), effect=effect)
    return pictures.caterpillar(plt.figure(), read_effects(idata, var_name, effect))


def plot_shrinkage(idata: Any, shares: pd.DataFrame | None = None, *, var_name: str | None = None) -> Axes:
    r"""Plot each group's effect against what its rows alone say: how far partial pooling pulls, and which groups.

    Across stands the log odds (probit models: the probit) of (a_g + 1/2) / (n_g + 1), minus that of all rows, a_g of
    n_g rows being +1. Without covariates a group's point lies between the diagonal, no pooling, and 0, complete
    pooling, the nearer to 0 the fewer its rows; covariates that differ between groups move it, too.

    Parameters
    ----------
    idata : InferenceData or Fit
        Draws of `sample` or `model`, or of a model of your own that tells its likelihood in
        ``idata.posterior.attrs["family"]``. Or a fit, which knows the shares of its event: see `Fit.plot_shrinkage`.
    shares : DataFrame, optional
        A row for each group, indexed by its level: `share` of the label that is +1, and `weight`, its number of rows.
        The certificate's `effects` are such a table. A fit needs none.
    var_name : str, optional
        Variable with the effects, by default `u_g` of the only factor g; dims chain, draw and one of groups.

    Returns
    -------
    Axes
        Of a new figure.

    Raises
    ------
    TypeError, DataError
        If `idata` has no such variable or likelihood, or `shares` lack a column or a group.

    References
    ----------
    Gelman and Hill (2007), Data Analysis Using Regression and Multilevel/Hierarchical Models, section 12.2.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=2000), "county": rng.integers(0, 10, 2000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=2000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> shares = rows.groupby("county")["vote"].agg(share="mean", weight="size")
    >>> bc.plots.plot_shrinkage(idata, shares).get_ylabel()
    'effect of county: mean and 95% interval, log odds'
    """
    if isinstance(idata, Fit) and shares is None:
        return idata.plot_shrinkage(_factor(var_name))
    idata = idata.idata if isinstance(idata, Fit) else idata
    if shares is None:
        raise TypeError("shares is missing: give the share of +1 and the weight of each group's rows, or a fit")
    return pictures.shrinkage(plt.figure(), read_effects(idata, var_name), shares)


def _factor(var_name: str | None) -> str | None:
    """Return the factor g of a variable u_g."""
    return None if var_name is None else var_name.removeprefix("u_")
