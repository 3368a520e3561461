"""Predictions of a fit, and averages of them: comparisons and slopes."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.fitting.contrasts import Contrast, averages, contrasts_of, slope_of
from bayescore.fitting.rows import RawRows, raw_rows
from bayescore.fitting.tables import FitTables
from bayescore.fitting.units import PROB, described, interval_names
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.samplers.predict import new_groups_seed, of_rows, probabilities, probability_tiles
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RandomState, check_choice, check_generator, check_integer, check_positive


class FitAverages(FitTables):
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
        """Return the posterior of P(y = +1 | x), or of the rate of counts, of new rows.

        Parameters
        ----------
        new : data frame or array, n rows
            Raw features, as given to `fit`.
        kind : {"mean", "response", "draws"}
            Mean, sd and interval of each row's probability; draws of its label; or draws of its probability. Of counts
            the rate, and counts of an exposure of 1.
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
            that is +1. ``attrs["level"]`` is the level.

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
        p = of_rows(self.posterior(), new, partial(probabilities, seed=seed), offset, groups)
        values: Any = p.T
        if kind == "response":
            values = rng.poisson(p.T) if self.coreset.counts else rng.random(p.T.shape) < p.T
        return xr.DataArray(
            values, dims=("sample", "row"), attrs={"level": self.level, "positive": str(self.coreset.classes[1])}
        )

    def comparisons(
        self,
        variable: str,
        *,
        by: str | None = None,
        data: Any = None,
        step: float = 1.0,
        comparison: str = "difference",
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> pd.DataFrame:
        """Return how much the average probability changes with a column, all else as it is in the rows.

        Parameters
        ----------
        variable : str
            Raw column: each level of a factor against the first, 1 against 0, or `step` more of a column of numbers.
        by : str, optional
            Raw column that parts the rows; an average for each of its values.
        data : data frame, optional
            Rows to average over, each of which counts once. By default all rows, with their weights, from a random
            sample of 20,000 of them.
        step : float
            Change of a column of numbers, in its own units.
        comparison : {"difference", "ratio"}
            Of the two average probabilities.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame
            A row for each contrast and part; mean, sd and interval over the posterior, and `rows_se`, the standard
            error from sampled rows, 0 where all were used, NaN where one row of a part was.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or `by` has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.comparisons("device")[["contrast", "mean"]].round(2).values.tolist()
        [['tablet - phone', 0.2]]
        """
        check_choice(comparison, "comparison", ("difference", "ratio"))
        _check(prob, max_draws)
        check_positive(step, "step")
        rows = raw_rows(self, data)
        contrasts = contrasts_of(rows, variable, step)
        return self._averages(rows, contrasts, by, prob, max_draws, ratio=comparison == "ratio")

    def slopes(
        self, variable: str, *, by: str | None = None, data: Any = None, prob: float = PROB, max_draws: int = 1000
    ) -> pd.DataFrame:
        """Return the average derivative of the probability by a column of numbers.

        Parameters
        ----------
        variable : str
            Raw column of numbers.
        by, data, prob, max_draws
            As in `comparisons`.

        Returns
        -------
        DataFrame
            As of `comparisons`.

        Raises
        ------
        DataError, ValueError
            As `comparisons` does; or if the column is a factor.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.slopes("x0")["mean"].round(2).tolist()
        [0.21]
        """
        _check(prob, max_draws)
        rows = raw_rows(self, data)
        if rows.levels(variable) is not None:
            raise DataError(f"variable={variable!r} is a factor, which has no slope; see comparisons")
        return self._averages(rows, [slope_of(rows, variable)], by, prob, max_draws, ratio=False)

    def _averages(
        self, rows: RawRows, contrasts: list[Contrast], by: str | None, prob: float, max_draws: int, *, ratio: bool
    ) -> pd.DataFrame:
        posterior = self.posterior()
        predictor = posterior.predictor(max_draws)
        return self._labelled(averages((predictor, posterior.family), rows, contrasts, by, prob, ratio=ratio))


def _check(prob: float, max_draws: int) -> None:
    """Raise unless both are in range, before any pass over the rows."""
    interval_names(prob)
    check_integer(max_draws, "max_draws", low=1)


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
