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
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.formula_design import reference_of
from bayescore.diagnostics.averages import (
    Along,
    AveragedRows,
    Change,
    ContrastSums,
    averaged_rows,
    check_by,
    values_of,
)
from bayescore.diagnostics.row_sums import check_weight
from bayescore.families import Family
from bayescore.families.normal import Gaussian
from bayescore.fitting.parts import described, interval_names, rows_of_fit
from bayescore.fitting.tables import FitTables
from bayescore.limits import PROB
from bayescore.models.predictor import Predictor
from bayescore.samplers.poststratify import population_shares
from bayescore.samplers.predict import (
    column_numbers,
    factor_levels,
    new_groups_seed,
    of_rows,
    probabilities,
    probability_tiles,
)
from bayescore.text import listed
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import (
    DataError,
    RandomState,
    check_choice,
    check_generator,
    check_integer,
    check_positive,
    check_weights,
    one_seed,
)


class FitPredictions(FitTables):
    """What a fit predicts; see `Fit`."""

    def predict(
        self,
        new: Any,
        *,
        kind: str = "mean",
        offset: Any = None,
        groups: Any = None,
        exposure: Any = None,
        new_groups: str = "sample",
        prob: float = PROB,
        random_state: RandomState = None,
        random_seed: RandomState = None,
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
            Offsets and groups of the rows, or their columns; by default the columns of the fit's names.
        exposure : array or str, optional
            Of counts, exposures of the rows or their column: means are rates times exposures, and counts are drawn at
            these. Without it all figures are of an exposure of 1, whatever exposures the fit's rows had.
        new_groups : {"sample", "average"}
            With "sample" a group that the fit does not know has effects drawn from N(0, sigma^2), one draw with each
            of the posterior; rows of one new group share them. With "average" p is averaged over these effects.
        prob : float
            Probability of the equal-tailed interval.
        random_state, random_seed : int, Generator, SeedSequence or None
            Seed of the effects of new groups, and of labels, by either name; 0 by default.

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
        rng = check_generator(0 if random_state is random_seed is None else one_seed(random_state, random_seed))
        seed = new_groups_seed(new_groups, rng)
        posterior = self._posterior()
        exposures = None if exposure is None else self._exposures(new, exposure)
        if kind == "mean":
            found = of_rows(posterior, new, partial(_figures, seed=seed, prob=prob), offset, groups)
            found = found if exposures is None else found * _of_each_row(exposures, len(found))[:, None]
            columns = ["mean", "sd", *interval_names(prob)[:2]]
            index = new.index if isinstance(new, pd.DataFrame) else None
            return self._labelled(pd.DataFrame(found, columns=columns, index=index))
        values: Any = of_rows(posterior, new, partial(probabilities, seed=seed), offset, groups).T
        values = values if exposures is None else values * _of_each_row(exposures, values.shape[1])
        if kind == "response":
            family = posterior.family
            if posterior.sd is not None:
                family = cast(Gaussian, family).at(posterior.sd[:, None])
            values = _responses(values, family, rng)
        attrs = dict(self._about)
        if self.coreset.response == "labels":
            attrs["positive"] = str(self.coreset.classes[1])
        return xr.DataArray(values, dims=("sample", "row"), attrs=attrs)

    def _exposures(self, new: Any, exposure: Any) -> FloatArray:
        """Return exposures of new rows, given them or their column."""
        if not self.coreset.counts:
            raise DataError(
                f"exposure is given, but the fit's family is {self.coreset._family_asked!r}, which takes no counts; "
                "leave it out"
            )
        if isinstance(exposure, str):
            exposure = column_numbers(new, exposure, "exposure")
        return check_weights(exposure, np.size(exposure), "exposure", zero=True)

    def poststratify(
        self,
        cells: Any,
        by: str | Sequence[str] = (),
        *,
        weights: str,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return the share of the class that is +1 in a population, or in parts of it (MRP).

        Parameters
        ----------
        cells : data frame or Arrow table
            A row for each cell of the population: the raw columns of the fit, its groups, its offset where it has one.
        by : str or list of str, optional
            Columns of `cells`, of any kind, that part the population; without it there is one share.
        weights : str
            Column of `cells` with their sizes in the population.
        draws : bool
            Return the draws behind the table.
        prob : float
            Probability of the equal-tailed intervals.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame or DataArray
            A row for each part: mean, sd and interval of its share, and its `weight`. Or draws, dims chain, draw and
            the table's index.

        Raises
        ------
        DataError
            If there are no cells, or they lack a column, miss an entry, have a level that the fit does not know, or
            weights that are not positive.

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
        >>> shares = fit.poststratify(census, by="old", weights="n", draws=True)
        >>> bool((shares.sel(old=1) > shares.sel(old=0)).mean() > 0.99)
        True
        """
        options = _options(prob, max_draws)
        found = population_shares(self._used, self.coreset, cells, by, weights=weights, max_draws=max_draws)
        drawn = AverageDraws(found.shares[None], None, found.parts, {"weight": found.weight})
        if draws:
            return self._by_chain(drawn, options)
        return self._labelled(drawn.figures(prob).set_axis(found.parts))

    def _by_chain(self, drawn: "AverageDraws", options: "Options") -> xr.DataArray:
        """Return averages at draws by chain and draw, with the level."""
        posterior, own = self._posterior(), self._used["posterior"]
        places = posterior.positions(options.max_draws).reshape(len(posterior.draws), -1)[0]
        return drawn.array({"chain": own["chain"].values, "draw": own["draw"].values[places]}, self._about)


@dataclass(frozen=True, eq=False)
class AverageDraws:
    """Averages at S draws, shape (C, P, S), of C contrasts over P parts of the rows, and what these are called.

    `more` has columns that stand beside the averages in a table, shape (C * P,).
    """

    values: FloatArray
    contrasts: pd.Index | None
    parts: pd.Index | None
    more: Mapping[str, FloatArray] = field(default_factory=dict)
    null: float | None = None  # what contrasts are when there is none: 0 of differences, 1 of ratios

    def figures(self, prob: float) -> pd.DataFrame:
        """Return mean, sd and interval of each average, a row for each part, contrasts below each other."""
        flat = self.values.reshape(-1, self.values.shape[2])
        columns = described(flat, prob)
        if self.null is not None:
            columns[f"P(>{self.null:g})"] = (flat > self.null).mean(axis=1)
        return pd.DataFrame({**columns, **self.more})

    def table(self, prob: float) -> pd.DataFrame:
        """Return `figures` with the names of contrasts and parts as first columns."""
        n_parts, rows = self.values.shape[1], np.arange(self.values.shape[0] * self.values.shape[1])
        names = [(self.contrasts, rows // n_parts), (self.parts, rows % n_parts)]
        labels = [index.take(places).to_frame(index=False) for index, places in names if index is not None]
        return pd.concat([*labels, self.figures(prob)], axis=1)

    def array(self, coords: Mapping[str, Any], attrs: Mapping[str, str]) -> xr.DataArray:
        """Return the averages with dimensions chain, draw, contrast and part, given the coordinates of the first two.

        A part by several columns is called by their values, in a multi-index.
        """
        all_coords, dims, shape = xr.Coordinates(coords), ["chain", "draw"], [len(own) for own in coords.values()]
        for index in (self.contrasts, self.parts):
            if index is None:
                continue
            name = "part" if isinstance(index, pd.MultiIndex) else str(index.name)
            if isinstance(index, pd.MultiIndex):
                all_coords = all_coords.merge(xr.Coordinates.from_pandas_multiindex(index, name)).coords
            else:
                all_coords[name] = index
            dims.append(name)
            shape.append(len(index))
        values = np.moveaxis(self.values.reshape(-1, self.values.shape[2]), 1, 0).reshape(shape)
        return xr.DataArray(values, dims=dims, coords=all_coords, attrs=dict(attrs))


def _of_each_row(exposures: FloatArray, n_rows: int) -> FloatArray:
    if len(exposures) != n_rows:
        raise DataError(f"exposure has {len(exposures)} entries and new {n_rows} rows; give one for each row")
    return exposures


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


MAX_BYTES = 2**28  # of averages at all draws


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
    null: float | None = 0.0

    def drawn(self, rows: AveragedRows, by: tuple[str, ...], max_draws: int, core: Coreset | None) -> AverageDraws:
        """Return each contrast over each part of the rows, at draws; `core` stands for the rows if it is given."""
        labels, cells = rows.parts(by, variable=self.variable, contrasts=self.changes, along=self.along)
        n, n_draws = cells.n_parts, len(rows.posterior.positions(max_draws))
        most = max(len(self.names), len(self.changes)) * n
        if (size := 8 * most * n_draws) > MAX_BYTES:
            raise DataError(
                f"{most:,} averages at {n_draws:,} draws take {size:,} bytes (limit {MAX_BYTES:,}): part the rows by "
                "columns of fewer values, compare fewer levels, or give a smaller max_draws"
            )

        def figures(found: ContrastSums) -> tuple[FloatArray, FloatArray, IntArray]:
            seen = np.flatnonzero(found.weight[:n] > 0.0)
            values, error = found.averages()
            values, error = values.reshape(len(self.changes), n, -1)[:, seen], error.reshape(-1, n)[:, seen]
            return (*self.figures(values, error), seen)

        found = rows.sums(cells, max_draws, lambda sums: [_flat(*figures(sums)[:2])])
        if core is not None and not (core.counts or rows.added):  # whose weight has events, too
            check_weight(core, float(found.weight[:n].sum()))
        values, error, seen = figures(found)
        parts = _index({name: [own[place] for place in seen] for name, own in labels.items()})
        names = None if self.column is None else pd.Index(self.names, name=self.column)
        return AverageDraws(values, names, parts, {"sampling_se": error.ravel()}, self.null)


def _index(labels: Mapping[str, list[Any]]) -> pd.Index | None:
    if len(labels) > 1:
        return pd.MultiIndex.from_arrays(list(labels.values()), names=list(labels))
    return next((pd.Index(own, name=name) for name, own in labels.items()), None)


def predictions_of(rows: AveragedRows, variable: str | None) -> Contrasts:
    """Return all rows as they are, or as if they had each level of a factor in turn."""
    if variable is None:
        return Contrasts(None, ["all"], ((Change(),),), _as_they_are, None, null=None)
    names, values = rows.levels(variable, "variables")
    changes = tuple((Change(value=value),) for value in values)
    return Contrasts(variable, names, changes, _as_they_are, variable, null=None)


COMPARISONS = {"difference": "{0} - {1}", "ratio": "{0} / {1}", "odds": "odds({0}) / odds({1})"}
"""What contrasts of two average predictions are called."""


def comparisons_of(
    rows: AveragedRows, variable: str, *, against: Any = "first", step: float = 1.0, comparison: str = "difference"
) -> Contrasts:
    """Return levels of a factor against others, 1 against 0, or `step` more of a column of numbers."""
    rows.check_column(variable, "variable")
    if comparison == "odds" and rows.posterior.family.response != "labels":
        raise DataError(
            f"comparison='odds' is of probabilities, and the family is {rows.posterior.family.name!r}; give "
            "comparison='ratio' or 'difference'"
        )
    levels, text = list(factor_levels(rows.design, variable)), variable in dict(rows.design.raw_levels)
    if not levels and step == 1.0 and _is_binary(rows, variable):
        levels = [0, 1]
    if levels:
        ways = [{"value": float(place) if text else float(level)} for place, level in enumerate(levels)]
        first = _reference(rows, variable, levels, against)
        ways.insert(0, ways.pop(first))
        levels.insert(0, levels.pop(first))
        pairs = [(j, 0) for j in range(1, len(levels))]
        if against == "pairwise":
            pairs = [(j, i) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    else:
        if against != "first":
            raise DataError(
                f"against={against!r}, but variable={variable!r} is a column of numbers, which step= compares: leave "
                "against out, or write C(...) in the formula"
            )
        ways, levels, pairs = [{"shift": 0.0}, {"shift": step}], ["+0", f"+{step:g}"], [(1, 0)]
    named = "{0}" if levels[0] == "+0" and comparison == "difference" else COMPARISONS[comparison]
    names = [named.format(levels[j], levels[i]) for j, i in pairs]
    if comparison != "difference":
        each = tuple((Change(**way),) for way in ways)
        return Contrasts(variable, names, each, partial(_ratios, pairs, odds=comparison == "odds"), null=1.0)
    changes = tuple((Change(1.0, **way), Change(-1.0, **ways[0])) for way in ways[1:])
    return Contrasts(variable, names, changes, partial(_differences, pairs))


def _reference(rows: AveragedRows, variable: str, levels: Sequence[Any], against: Any) -> int:
    """Return the place of the level that others are compared with."""
    if against in ("first", "pairwise"):
        reference = reference_of(rows.design, variable) if factor_levels(rows.design, variable) else levels[0]
        return levels.index(reference) if reference in levels else 0
    found = [place for place, level in enumerate(levels) if level == against or str(level) == str(against)]
    if not found:
        raise DataError(
            f"against={against!r} is no level of {variable!r} ({listed(levels)}); give one of them, 'first' for the "
            "reference, or 'pairwise'"
        )
    return found[0]


def effect_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the levels of a factor against their reference, 1 against 0, or the derivative by a column of numbers."""
    if factor_levels(rows.design, variable) or _is_binary(rows, variable):
        return comparisons_of(rows, variable)
    return slopes_of(rows, variable)


def _is_binary(rows: AveragedRows, variable: str) -> bool:
    cells = rows.cells(by=(variable,), values=((0.0,),))
    return set(values_of(rows.dataset, cells, variable, 2) or [2.0]) <= {0.0, 1.0}


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
    cells = rows.cells(by=(variable,), values=((0.0,),))

    def ends(_: int, block: WeightedData) -> FloatArray:
        column = cells.column(block, variable)
        return np.array([column.min(), column.max()])

    low, high = np.transpose(list(rows.dataset.map(ends, "learning a range")))
    return float(high.max() - low.min())


def _as_they_are(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, error


def _differences(
    pairs: Sequence[tuple[int, int]], values: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return differences of pairs of levels, given those to level 0, and bounds of their errors."""
    values, error = (np.concatenate([np.zeros_like(own[:1]), own]) for own in (values, error))
    one, other = np.transpose(pairs)
    return values[one] - values[other], np.hypot(error[one], error[other])


def _ratios(
    pairs: Sequence[tuple[int, int]], values: FloatArray, error: FloatArray, *, odds: bool
) -> tuple[FloatArray, FloatArray]:
    """Return ratios of pairs of averages, or of their odds, and their errors by the delta method."""
    mean, (one, other) = values.mean(axis=2), np.transpose(pairs)
    share = error / np.maximum(np.abs(mean * (1.0 - mean) if odds else mean), np.finfo(float).tiny)
    if odds:
        values = values / (1.0 - values)
    ratio = values[one] / values[other]
    return ratio, np.abs(ratio.mean(axis=2)) * np.hypot(share[one], share[other])


def _flat(values: FloatArray, error: FloatArray) -> tuple[FloatArray, Any]:
    return values.reshape(-1, values.shape[2]), error.ravel()


class FitAverages(FitPredictions):
    """What a fit says about averages over rows; see `Fit`."""

    def average_predictions(
        self,
        *,
        by: str | Sequence[str] | None = None,
        variables: str | None = None,
        data: Any = None,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return average probabilities of the rows, of parts of them, or of all as if they had each level of a factor.

        Parameters
        ----------
        by : str or list of str, optional
            Columns that part the rows, an average for each of their values: any column of the rows, also one that the
            formula does not have, or a grouping factor. Rows that miss an entry of it are an error, or where the fit
            has ``missing="drop"`` left out.
        variables : str, optional
            Raw column that is set to each of its levels in turn, in all rows.
        data : rows, optional
            Rows to average over: raw ones in a data frame or an array, each of which counts once, or a file or another
            source of any kind that `fit` takes. By default all rows of the fit, with their weights.
        draws : bool
            Return the draws behind the table.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame or DataArray
            A row for each average; mean, sd and interval over the posterior, and `sampling_se`, the standard error
            because some of many rows stand for all; 0 where each row was evaluated. Or draws, dims chain, draw and
            those of the table's first columns: several columns `by` are the levels of one dimension, `part`.

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
        asked, options = partial(predictions_of, variable=variables), _options(prob, max_draws)
        if variables is not None and variables in check_by(by):
            raise DataError(f"by={by!r} has variables={variables!r}, which is set in all rows; leave it out of one")
        return self._averages(asked, by, data, options, draws=draws)

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
            level is in ``attrs["level"]``.

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
        core, n = self.coreset, options.max_draws
        each = [effect_of(rows, name).drawn(rows, (), n, core).table(prob) for name in names]
        index = pd.Index(np.repeat(names, [len(table) for table in each]), name="column")
        return self._labelled(pd.concat(each).set_index(index))

    def comparisons(
        self,
        variable: str,
        *,
        against: Any = "first",
        comparison: str = "difference",
        by: str | Sequence[str] | None = None,
        data: Any = None,
        step: float = 1.0,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return how much the average probability changes with a column, all else as it is in the rows.

        Parameters
        ----------
        variable : str
            Raw column: levels of a factor against each other, 1 against 0, or `step` more of a column of numbers.
        against : level, "first" or "pairwise"
            Level of a factor that all others are compared with, by default its reference in the formula; or each level
            with all before it.
        comparison : {"difference", "ratio", "odds"}
            Difference or ratio of the two average probabilities, or ratio of their odds.
        by, data
            As in `average_predictions`.
        step : float
            Change of a column of numbers, in its own units. A row from which it leads out of a term's domain, as beyond
            the bounds of a spline, is taken from a step before, so that the step ends where the row is.
        draws, prob, max_draws
            As in `average_predictions`.

        Returns
        -------
        DataFrame or DataArray
            As of `average_predictions`, a row for each contrast and part, with the posterior probability ``P(>0)`` that
            a difference is above 0, or ``P(>1)`` a ratio above 1.

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
        >>> better = fit.comparisons("device", draws=True)
        >>> bool((better.sel(contrast="tablet - phone") > 0.1).mean() > 0.99)
        True
        """
        check_choice(comparison, "comparison", tuple(COMPARISONS))
        check_positive(step, "step")
        options, ways = _options(prob, max_draws), {"against": against, "step": step, "comparison": comparison}
        return self._averages(partial(comparisons_of, variable=variable, **ways), by, data, options, draws=draws)

    def slopes(
        self,
        variable: str,
        *,
        by: str | Sequence[str] | None = None,
        data: Any = None,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return the average derivative of the probability by a column of numbers, through all terms that have it.

        Parameters
        ----------
        variable : str
            Raw column of numbers.
        by, data, draws, prob, max_draws
            As in `average_predictions`.

        Returns
        -------
        DataFrame or DataArray
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
        asked, options = partial(slopes_of, variable=variable), _options(prob, max_draws)
        return self._averages(asked, by, data, options, draws=draws)

    def _averages(
        self, asked: Callable[[AveragedRows], Contrasts], by: Any, data: Any, options: Options, *, draws: bool
    ) -> Any:
        names, every = check_by(by), data is None
        rows = rows_of_fit(self, names) if every else averaged_rows(self._posterior(), data, by=names)
        found = asked(rows).drawn(rows, names, options.max_draws, self.coreset if every else None)
        return self._by_chain(found, options) if draws else self._labelled(found.table(options.prob))


def _options(prob: float, max_draws: int) -> Options:
    """Return both; raise unless they are in range, before any pass over the rows."""
    interval_names(prob)
    return Options(prob, check_integer(max_draws, "max_draws", low=1))
