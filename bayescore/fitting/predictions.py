"""Predictions of a fit, for new rows and for cells of a population."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescore.fitting.tables import FitTables
from bayescore.fitting.units import described, interval_names
from bayescore.limits import PROB
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.samplers.poststratify import poststratify
from bayescore.samplers.predict import new_groups_seed, of_rows, probabilities, probability_tiles
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import RandomState, check_choice, check_generator


class FitPredictions(FitTables):
    """What a fit predicts; see `Fit`."""

    def predict(
        self,
        new: Any,
        *,
        kind: str = "mean",
        offset: Any = None,
        groups: Any = None,
        new_groups: str = "sample",
        prob: float = PROB,
        random_state: RandomState = 0,
    ) -> Any:
        """Return the posterior of P(y = +1 | x), or of the rate of counts or mean of numbers, of new rows.

        Parameters
        ----------
        new : data frame or array, n rows
            Raw features, as given to `fit`.
        kind : {"mean", "response", "draws"}
            Mean, sd and interval of each row's probability; draws of its label; or draws of its probability. Of counts
            the rate, and counts of an exposure of 1; of numbers the mean, and numbers with noise.
        offset, groups : array or str, optional
            As in `predict`; by default the columns of the fit's names.
        new_groups : {"sample", "average"}
            With "sample" a group that the fit does not know has effects drawn from N(0, sigma^2), one draw with each
            of the posterior; rows of one new group share them. With "average" p is averaged over these effects.
        prob : float
            Probability of the equal-tailed interval.
        random_state : int, Generator, SeedSequence or None
            Seed of the effects of new groups, and of labels.

        Returns
        -------
        DataFrame or DataArray
            A data frame of n rows; or draws of shape (S, n), dims sample and row, of labels as bool, True for the class
            that is +1, of counts or numbers. ``attrs["level"]`` is the level.

        Raises
        ------
        DataError, ValueError
            If rows lack a column, or have a level that the fit does not know.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.predict(np.array([[0.0], [2.0]]))["mean"].round(1).tolist()
        [0.5, 0.9]
        >>> fit.predict(np.array([[0.0], [2.0]]), kind="draws").shape
        (4000, 2)
        """
        check_choice(kind, "kind", ("mean", "response", "draws"))
        interval_names(prob)
        rng = check_generator(random_state)
        seed = new_groups_seed(new_groups, rng)
        if kind == "mean":
            found = of_rows(self.posterior(), new, partial(_figures, seed=seed, prob=prob), offset, groups)
            columns = ["mean", "sd", *interval_names(prob)[:2]]
            index = new.index if isinstance(new, pd.DataFrame) else None
            return self._labelled(pd.DataFrame(found, columns=columns, index=index))
        posterior = self.posterior()
        p = of_rows(posterior, new, partial(probabilities, seed=seed), offset, groups)
        values: Any = p.T
        if kind == "response":
            values = _responses(p.T, posterior.family, rng)
        attrs = dict(self._about)
        if self.coreset.response == "labels":
            attrs["positive"] = str(self.coreset.classes[1])
        return xr.DataArray(values, dims=("sample", "row"), attrs=attrs)

    def poststratify(
        self, cells: Any, by: str | Sequence[str] = (), *, weights: str, prob: float = PROB, max_draws: int = 1000
    ) -> pd.DataFrame:
        """Return the share of the class that is +1 in a population, or in parts of it (MRP).

        Parameters
        ----------
        cells, by, weights, max_draws
            As in `bayescore.poststratify`.
        prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        DataFrame
            A row for each part; `mean`, `lower` and `upper` of its share, and its `weight`.

        Raises
        ------
        DataError
            As `bayescore.poststratify` does.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"old": rng.integers(0, 2, 2000), "county": rng.choice(list("abcdef"), 2000)})
        >>> rows["vote"] = rows["old"] + rng.logistic(size=2000) > 0
        >>> fit = bc.fit("vote ~ old + (1 | county)", rows, random_state=1, progressbar=False)
        >>> census = pd.DataFrame({"old": [0, 1], "county": ["a", "a"], "n": [300, 100]})
        >>> fit.poststratify(census, by="county", weights="n")["mean"].round(1).to_dict()
        {'a': 0.6}
        """
        interval_names(prob)
        found = poststratify(self.idata, self.coreset, cells, by, weights=weights, prob=prob, max_draws=max_draws)
        return self._labelled(found)


def _responses(mean: FloatArray, family: Family, rng: np.random.Generator) -> NDArray[Any]:
    """Return responses drawn at their means."""
    if family.quadratic:
        return family.draw(mean, rng)
    if not family.counts:
        return np.asarray(rng.random(mean.shape) < mean)
    with np.errstate(divide="ignore"):  # of a rate of 0
        return family.draw(np.log(mean), rng).astype(np.int64)


def _figures(
    predictor: Predictor,
    family: Family,
    rows: WeightedData,
    new: IntArray | None,
    *,
    seed: int | None,
    prob: float,
) -> FloatArray:
    """Return mean, sd and interval of p of each of the rows, shape (n, 4)."""
    tiles = probability_tiles(predictor, family, rows, new, seed)
    return np.concatenate([np.column_stack([*(described(p, prob) | {"mean": mean}).values()]) for mean, p in tiles])
