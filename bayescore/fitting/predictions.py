r"""Predictions of a fit, for new rows and for cells of a population.

Averages of a fit's predictions over its rows, or others: comparisons and slopes.

Average comparisons and slopes, as marginaleffects has them, from the draws.

.. math:: \Delta_k = \frac{\sum_{n \in k} w_n \, [p(x_n^{+}) - p(x_n^{-})]}{\sum_{n \in k} w_n}

x+ and x- are a row with one raw column changed; a slope is the derivative by it. Each draw gives one figure, so that
intervals are the posterior's. The sums are over all rows, by `diagnostics.averages`, which says their error where a
sample stands for many rows.

Reference: Arel-Bundock, Greifer and Heiss (2024), Journal of Statistical Software 111.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.formula_design import reference_of
from bayescore.diagnostics.averages import Along, AveragedRows, Change, ContrastSums, averaged_rows, values_of
from bayescore.diagnostics.row_sums import check_weight
from bayescore.families import Family
from bayescore.families.normal import Gaussian
from bayescore.fitting.parts import described, interval_names, rows_of_fit
from bayescore.fitting.tables import FitTables
from bayescore.limits import PROB
from bayescore.models.predictor import Predictor
from bayescore.samplers.poststratify import poststratify
from bayescore.samplers.predict import factor_levels, new_groups_seed, of_rows, probabilities, probability_tiles
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RandomState, check_choice, check_generator, check_integer, check_positive


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
            family = posterior.family
            if posterior.sd is not None:
                family = cast(Gaussian, family).at(posterior.sd[:, None])
            values = _responses(p.T, family, rng)
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


_BINARY = ({"value": 0.0}, {"value": 1.0})


class Options(NamedTuple):
    """Probability of the equal-tailed intervals, and most draws that are used."""

    prob: float
    max_draws: int


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Names of contrasts, what the rows are changed to for them, and how averages over these become figures."""

    variable: str | None
    names: list[Any]
    changes: tuple[tuple[Change, ...], ...]
    figures: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    column: str | None = "contrast"  # of the names
    along: Along | None = None  # of a slope

    def table(self, rows: AveragedRows, by: str | None, options: Options, core: Coreset | None) -> pd.DataFrame:
        """Return a table with a row for each contrast and part of the rows; `core` stands for them if it is given."""
        parts, cells = rows.parts(by)
        asked = {"variable": self.variable, "contrasts": self.changes, "along": self.along}
        cells = rows.cells(by=by, values=cells.values, **asked)
        n = len(parts)

        def figures(found: ContrastSums) -> tuple[FloatArray, FloatArray, IntArray]:
            seen = np.flatnonzero(found.weight[:n] > 0.0)
            values, error = found.averages()
            values, error = values.reshape(len(self.changes), n, -1)[:, seen], error.reshape(-1, n)[:, seen]
            return (*self.figures(values, error), seen)

        found = rows.sums(cells, options.max_draws, lambda sums: [_flat(*figures(sums)[:2])])
        if core is not None and not core.counts:  # whose weight has events, too
            check_weight(core, float(found.weight[:n].sum()))
        values, error, seen = figures(found)
        figure, se = _flat(values, error)
        table = pd.DataFrame(described(figure, options.prob)).assign(sampling_se=se)
        if by is not None:
            table.insert(0, by, [parts[place] for place in seen] * len(self.names))
        if self.column is not None:
            table.insert(0, self.column, [name for name in self.names for _ in seen])
        return table


def predictions_of(rows: AveragedRows, variable: str | None) -> Contrasts:
    """Return all rows as they are, or as if they had each level of a factor in turn."""
    if variable is None:
        return Contrasts(None, ["all"], ((Change(),),), _as_they_are, None)
    names, values = rows.levels(variable, "variables")
    return Contrasts(variable, names, tuple((Change(value=value),) for value in values), _as_they_are, variable)


def comparisons_of(rows: AveragedRows, variable: str, step: float, *, ratio: bool) -> Contrasts:
    """Return the levels of a factor against their reference, 1 against 0, or `step` more of a column of numbers."""
    rows.check_column(variable, "variable")
    levels, sign = factor_levels(rows.design, variable), "/" if ratio else "-"
    if levels:
        text = variable in dict(rows.design.raw_levels)
        ways = [{"value": float(place) if text else float(level)} for place, level in enumerate(levels)]
        reference = reference_of(rows.design, variable)
        first = levels.index(reference) if reference in levels else 0
        ways.insert(0, ways.pop(first))
        names = [f"{level} {sign} {levels[first]}" for level in levels if level != levels[first]]
        return _against_first(variable, names, ways, ratio=ratio)
    if step == 1.0 and _is_binary(rows, variable):
        return _against_first(variable, [f"1 {sign} 0"], _BINARY, ratio=ratio)
    name = f"+{step:g} / +0" if ratio else f"+{step:g}"
    return _against_first(variable, [name], [{"shift": 0.0}, {"shift": step}], ratio=ratio)


def _against_first(variable: str, names: list[Any], ways: Sequence[Mapping[str, float]], *, ratio: bool) -> Contrasts:
    """Return contrasts of ways to change a column with the first of them."""
    if ratio:
        return Contrasts(variable, names, tuple((Change(**way),) for way in ways), _ratios)
    below = Change(-1.0, **ways[0])
    return Contrasts(variable, names, tuple((Change(1.0, **way), below) for way in ways[1:]), _as_they_are)


def effect_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the levels of a factor against their reference, 1 against 0, or the derivative by a column of numbers."""
    if factor_levels(rows.design, variable):
        return comparisons_of(rows, variable, 1.0, ratio=False)
    if _is_binary(rows, variable):
        return _against_first(variable, ["1 - 0"], _BINARY, ratio=False)
    return slopes_of(rows, variable)


def _is_binary(rows: AveragedRows, variable: str) -> bool:
    return set(values_of(rows.dataset, rows.cells(by=variable), variable, 2) or [2.0]) <= {0.0, 1.0}


def slopes_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the derivative by a column of numbers, through all terms of the formula."""
    rows.check_column(variable, "variable")
    if factor_levels(rows.design, variable):
        raise DataError(f"variable={variable!r} is a factor, which has no slope; see comparisons")
    along = Along(_range(rows, variable), rows.coefficient_sizes())
    return Contrasts(variable, ["dp/dx"], ((Change(), Change()),), _as_they_are, along=along)


def _range(rows: AveragedRows, variable: str) -> float:
    """Return the sd of a standardised column, or the range of another, by a pass."""
    design = rows.design
    lead = int(design.intercept)
    if design.scale is not None and variable in design.names[lead:]:
        return float(design.scales[design.names.index(variable, lead)])
    cells = rows.cells(by=variable)

    def ends(_: int, block: WeightedData) -> FloatArray:
        column = cells.column(block, variable)
        return np.array([column.min(), column.max()])

    low, high = np.transpose(list(rows.dataset.map(ends, "learning a range")))
    return float(high.max() - low.min())


def _as_they_are(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, error


def _ratios(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ratios to the first, and their errors by the delta method."""
    ratio, mean = values[1:] / values[0], values.mean(axis=2)
    share = error / np.maximum(np.abs(mean), np.finfo(float).tiny)
    return ratio, np.abs(ratio.mean(axis=2)) * np.hypot(share[1:], share[0])


def _flat(values: FloatArray, error: FloatArray) -> tuple[FloatArray, Any]:
    return values.reshape(-1, values.shape[2]), error.ravel()


class FitAverages(FitPredictions):
    """What a fit says about averages over rows; see `Fit`."""

    def average_predictions(
        self,
        *,
        by: str | None = None,
        variables: str | None = None,
        data: Any = None,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> pd.DataFrame:
        """Return average probabilities of the rows, of parts of them, or of all as if they had each level of a factor.

        Parameters
        ----------
        by : str, optional
            Raw column or grouping factor that parts the rows; an average for each of its values.
        variables : str, optional
            Raw column that is set to each of its levels in turn, in all rows.
        data : rows, optional
            Rows to average over, as `bayescore.average_predictions` takes them; raw ones count once each. By default
            all rows of the fit, with their weights.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame
            A row for each average; mean, sd and interval over the posterior, and `sampling_se`, the standard error
            because some of many rows stand for all; 0 where each row was evaluated.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or it has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.average_predictions(by="device")[["device", "mean"]].round(1).values.tolist()
        [['phone', 0.3], ['tablet', 0.5]]
        """
        return self._averages(partial(predictions_of, variable=variables), by, data, _options(prob, max_draws))

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd and interval of each parameter, in units of the data.

        Parameters
        ----------
        scale : {"coef", "odds", "ratio", "response"}
            Coefficients, with the sds and correlations of groups' effects; odds ratios for one unit more, or of a level
            against the first, of a logistic regression. "ratio" is the same of any family whose coefficients are logs:
            rate ratios of counts, hazard ratios, odds ratios. Or for each column of the data what it does to the
            probability, averaged over all rows: `comparisons` of factors and 0/1 columns, `slopes` of others, by a
            pass for each.
        prob : float
            Probability of the equal-tailed interval, whose ends have their percentages for names.

        Returns
        -------
        DataFrame
            A row for each parameter, also with effective sample sizes and R-hat; or for each column and contrast. The
            level stands above the columns and in ``attrs["level"]``.

        Raises
        ------
        ValueError, DataError
            If `scale` is unknown, or is "odds" or "ratio" of a family whose coefficients are no such logs, or
            "response" and the rows are not there.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.summary(scale="odds")["mean"].round(1).to_dict()
        {'x0': 2.7}
        >>> fit.summary(scale="response")[["contrast", "mean"]].round(2).values.tolist()
        [['dp/dx', 0.21]]
        """
        check_choice(scale, "scale", ("coef", "odds", "ratio", "response"))
        if scale != "response":
            return self._parameters(scale, prob)
        names = self.coreset.design.raw_names
        self._check_beside_intercept(scale, names)
        rows, options = rows_of_fit(self), _options(prob, 1000)
        each = [effect_of(rows, name).table(rows, None, options, self.coreset) for name in names]
        index = pd.Index(np.repeat(names, [len(table) for table in each]), name="column")
        return self._labelled(pd.concat(each).set_index(index))

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
            Raw column: each level of a factor against its reference, 1 against 0, or `step` more of a column of
            numbers.
        by : str, optional
            Raw column or grouping factor that parts the rows; an average for each of its values.
        data : rows, optional
            Rows to average over, as `average_predictions` takes them; raw ones count once each. By default all rows of
            the fit, with their weights.
        step : float
            Change of a column of numbers, in its own units. A row from which it leads out of a term's domain, as beyond
            the bounds of a spline, is taken from a step before, so that the step ends where the row is.
        comparison : {"difference", "ratio"}
            Of the two average probabilities.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame
            A row for each contrast and part; mean, sd and interval over the posterior, and `sampling_se`, the standard
            error because some of many rows stand for all; 0 where each row was evaluated.

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
        check_positive(step, "step")
        options = _options(prob, max_draws)
        asked = partial(comparisons_of, variable=variable, step=step, ratio=comparison == "ratio")
        return self._averages(asked, by, data, options)

    def slopes(
        self, variable: str, *, by: str | None = None, data: Any = None, prob: float = PROB, max_draws: int = 1000
    ) -> pd.DataFrame:
        """Return the average derivative of the probability by a column of numbers, through all terms that have it.

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
            As `comparisons` does; or if the column is a factor, or a term has no derivative in some row.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.slopes("x0")["mean"].round(2).tolist()
        [0.21]
        """
        return self._averages(partial(slopes_of, variable=variable), by, data, _options(prob, max_draws))

    def _averages(
        self, asked: Callable[[AveragedRows], Contrasts], by: str | None, data: Any, options: Options
    ) -> pd.DataFrame:
        every = data is None
        rows = rows_of_fit(self) if every else averaged_rows(self.posterior(), None, data, {}, progressbar=False)
        return self._labelled(asked(rows).table(rows, by, options, self.coreset if every else None))


def _options(prob: float, max_draws: int) -> Options:
    """Return both; raise unless they are in range, before any pass over the rows."""
    interval_names(prob)
    return Options(prob, check_integer(max_draws, "max_draws", low=1))
