r"""Average predicted probabilities by the levels of a factor, from the draws, over rows in memory or of any source.

.. math:: \bar p_k = \frac{\sum_{n \in k} w_n \, p(x_n \cdot \beta)}{\sum_{n \in k} w_n}

k is a level: the rows that have it (``by=``), or all rows as if they had it, the rest as it is (``variables=``), which
tells the factor's own part apart from what goes with it. Each draw of the posterior gives one figure, so that intervals
are the posterior's; the rows are taken as they are. Of more than `EVERY_ROW` rows a sample stands for what is beyond
second order (`average_sums`); where it does not tell enough, each row is evaluated at each draw after all.

A coreset stands for all rows in the likelihood, not in averages of probabilities, so that its rows are refused here.

Reference: Arel-Bundock, Greifer and Heiss (2024), How to interpret statistical models using marginaleffects, Journal of
Statistical Software 111, whose `avg_predictions` has the same two arguments.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.arrays import rows_source
from bayescore.data.coreset import Coreset, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.formula_design import formula_of
from bayescore.data.open import open_in
from bayescore.data.responses import response_of
from bayescore.data.tables import feature_matrix, is_dask, is_table
from bayescore.diagnostics.average_sums import EVERY_ROW, Cells, CellSums, Change, Figures, cell_sums, values_of
from bayescore.diagnostics.row_sums import check_finite
from bayescore.limits import PROB
from bayescore.samplers.posterior import Posterior, read_posterior
from bayescore.samplers.predict import groups_of, offset_of, positive_rows, raw_column
from bayescore.text import listed
from bayescore.types import NO_ROW, FloatArray, WeightedData
from bayescore.validation import DataError, check_integer, check_positive

MAX_VALUES = 20  # of a column of numbers that is taken for a factor
_BLOCK = 1024  # rows of a thread's piece in memory
_WHOLE = (None, "full", "aggregate")  # methods whose rows miss nothing; None of rows that are no coreset


def average_predictions(
    idata: Any,
    data: Any = None,
    *,
    by: str | None = None,
    variables: str | None = None,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    missing: str = "raise",
    groups: Any = None,
    prob: float = PROB,
    max_draws: int = 1000,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Return average predicted probabilities, or rates by exposure, by the levels of a factor.

    Parameters
    ----------
    idata : InferenceData
        From `sample`, or the corrected draws of a certificate.
    data : optional
        Rows to average over: raw ones in a data frame or an array, as for `predict`, each of which counts once; the
        full data in any form that `certify` takes, such as the path of a Parquet file or a Dask DataFrame; or
        ``all_rows(..., design=core.design)`` with their weights. By default the rows that the posterior was drawn from,
        if these are all rows of the data, or their sums (`aggregate`).
    by : str
        Raw column whose levels part the rows: the average over the rows of each level.
    variables : str
        Raw column that is set to each level in turn, in all rows: the averages differ by its own part alone.
    label, weights, offset, trials, exposure, missing, groups
        Of the full data, as given to `build_coreset`; of raw rows in memory none is needed.
    prob : float
        Probability of the equal-tailed intervals.
    max_draws : int
        Draws used, evenly spaced.
    progressbar : bool
        Show progress of a pass over a file or another large source.

    Returns
    -------
    DataFrame
        A row for each level: `mean`, `lower` and `upper` of the average probability of the class that is +1, and those
        of its difference to the first level, `difference`, `difference_lower` and `difference_upper`. `weight` is that
        of the rows. `sampling_se` is the standard error of the average because some of many rows stand for all; 0
        where each row was evaluated.

    Raises
    ------
    TypeError, ValueError, DataError
        Unless one of `by` and `variables` names a column of the data that is a factor, or has at most 20 values, or
        `by` a grouping factor. If the rows are a coreset's that misses a part of the data, if rows of the design matrix
        do not tell the column, or if there are no rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
    >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(rows, formula="clicked ~ age + device", size=500, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> bc.average_predictions(idata, rows, variables="device")["mean"].round(1).to_dict()
    {'phone': 0.3, 'tablet': 0.5}
    """
    if (by is None) == (variables is None):
        raise ValueError(f"by={by!r} and variables={variables!r}: give one of them, the name of a column")
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    check_integer(max_draws, "max_draws", low=1)
    posterior = read_posterior(idata, "idata", min_draws=1)
    beside = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    beside["groups"] = groups
    beside = {key: value for key, value in beside.items() if value is not None}
    if missing != "raise":
        beside["missing"] = missing
    rows = averaged_rows(posterior, idata, data, beside, progressbar=progressbar)
    if by is not None:
        shown, cells = rows.parts(by)
    else:
        shown, values = rows.levels(str(variables), "variables")
        contrasts = tuple((Change(value=value),) for value in values)
        cells = rows.cells(variable=str(variables), contrasts=contrasts)
    found = rows.sums(cells, max_draws, _figures)
    seen = found.weight > 0.0
    average, error = (each[seen] for each in found.averages())
    table: dict[str, Any] = {}
    for prefix, figures in (("", average), ("difference", average - average[:1])):
        table[prefix or "mean"] = figures.mean(axis=1)
        bounds = np.quantile(figures, [tail, 1.0 - tail], axis=1)
        join = f"{prefix}_" if prefix else ""
        table |= {f"{join}lower": bounds[0], f"{join}upper": bounds[1]}
    index = pd.Index([level for level, there in zip(shown, seen, strict=True) if there], name=by or variables)
    return pd.DataFrame({**table, "weight": found.weight[seen], "sampling_se": error}, index=index)


def _figures(found: CellSums) -> list[tuple[FloatArray, FloatArray]]:
    """Return averages and their differences to the first, and the errors of both."""
    average, error = (each[found.weight > 0.0] for each in found.averages())
    return [(average, error), ((average - average[:1])[1:], np.hypot(error, error[:1])[1:])]


class AveragedRows(NamedTuple):
    """Rows to average over, raw or `designed`, those of the design matrix."""

    posterior: Posterior
    dataset: Dataset
    designed: bool

    @property
    def design(self) -> Design:
        """The posterior's design."""
        return design_of(self.posterior)

    def cells(self, **asked: Any) -> Cells:
        """Return `Cells` of these rows, whose columns tell what is asked."""
        cells = Cells(self.design, self.designed, response=response_of(self.dataset.source.classes), **asked)
        wanted = self.design.raw_names if cells.variable is not None else ()
        if cells.by in self.design.raw_names:
            wanted = (*wanted, str(cells.by))
        if self.designed:
            X = np.zeros((1, len(self.design.names)))
            if lost := [own for own in wanted if raw_column(self.design, X, own) is None]:
                raise DataError(
                    f"the rows of the design matrix do not tell {lost[0]!r} (formula={formula_of(self.design)!r}); "
                    "give raw rows as data, a sample of them"
                )
        return cells

    def parts(self, by: str | None) -> tuple[list[Any], Cells]:
        """Return the values of a column that parts the rows, as they are shown, and the cells of these parts."""
        if by is None:
            return ["all"], self.cells()
        if not isinstance(by, str):
            raise TypeError(
                f"by={by!r} is no name of a column; for combinations make a column, or name groups 'a:b' of the fit"
            )
        known = {own.name: own.levels for own in self.design.groups}
        if by in known and by not in self.design.raw_names:
            return list(known[by]), self.cells(by=by, values=tuple(map(float, range(len(known[by])))))
        shown, values = self.levels(by, "by")
        return shown, self.cells(by=by, values=values)

    def levels(self, name: str, argument: str) -> tuple[list[Any], tuple[float, ...]]:
        """Return the levels of a raw column, as they are shown and as numbers; of a column of numbers by a pass."""
        self.check_column(name, argument)
        text = dict(self.design.raw_levels).get(name)
        if text is not None:
            return list(text), tuple(map(float, range(len(text))))
        values = values_of(self.dataset, self.cells(by=name), name, MAX_VALUES)
        if values is None:
            raise DataError(
                f"{argument}={name!r} has more than {MAX_VALUES} values in these rows: it is no factor; give a column "
                "that is, or rows of few values"
            )
        return [int(v) if v == round(v) else float(v) for v in values], values

    def check_column(self, name: str, argument: str) -> None:
        """Raise unless the data have a column `name`."""
        if name not in self.design.raw_names:
            known = listed(self.design.raw_names, 10) or "none"
            raise DataError(f"{argument}={name!r} is no column of the data: {known}")

    def sums(self, cells: Cells, max_draws: int, figures: Figures) -> CellSums:
        """Return the sums of cells at draws, evenly spaced."""
        found = cell_sums(self.dataset, cells, self.posterior.predictor(max_draws), self.posterior.family, figures)
        check_finite(self.dataset, found.values)
        return found


def averaged_rows(
    posterior: Posterior, idata: Any, data: Any, beside: dict[str, Any], *, progressbar: bool
) -> AveragedRows:
    """Return rows of any source that `average_predictions` takes; `beside` are the roles of their columns."""
    design = design_of(posterior)
    memory = data is None or isinstance(data, WeightedData | list | tuple) or is_table(data)
    if beside or not (memory or (hasattr(data, "shape") and not is_dask(data))):
        opened = open_in(design, data, new_groups=True, progress=progressbar, whose="the posterior's data", **beside)
        found = AveragedRows(posterior, Dataset(opened.rows, progress=progressbar), isinstance(data, WeightedData))
    else:
        rows, designed = _rows(idata, posterior, data)
        small = _BLOCK if len(rows) <= EVERY_ROW else None
        found = AveragedRows(posterior, Dataset(rows_source(rows), block_rows=small), designed)
    if not found.dataset.source.n_rows:
        raise DataError("data has no rows, so there is no average; give at least one")
    return found


def design_of(posterior: Posterior) -> Design:
    """Return the design of a posterior; raise if it does not tell it."""
    if posterior.design is None:
        raise DataError("idata does not tell the columns of its data; give what sample returned for a coreset")
    return posterior.design


def _rows(idata: Any, posterior: Posterior, data: Any) -> tuple[WeightedData, bool]:
    """Return rows in memory, labels +1, and whether they are of the design matrix."""
    if data is not None and not isinstance(data, WeightedData):
        design = design_of(posterior)
        raw = feature_matrix(data, design.raw_names, design.raw_levels)
        beside = offset_of(posterior, data, len(raw), None), groups_of(posterior, data, len(raw), None)
        return positive_rows(raw, *beside), False
    if data is None:
        constants = idata.get("constant_data", {})
        if "X" not in constants or "weights" not in constants:
            raise DataError("idata has no rows in its group constant_data; give data")
        there = "row" in constants["X"].coords
        _check_rows(constants["X"].coords["row"].values == NO_ROW if there else None, posterior.coreset.get("method"))
        X, weights = (np.asarray(constants[key].values, dtype=np.float64) for key in ("X", "weights"))
        offset = np.asarray(constants["offset"].values) if posterior.offset is not None else None
        group = np.asarray(constants["group"].values) if "group" in constants else None
        y = np.asarray(constants["y"].values) if posterior.family.counts else np.zeros(0)
    else:
        check_same_design(data, posterior.features, posterior.design, "data")
        _check_rows(data.pseudo, data.method if isinstance(data, Coreset) else None)
        offset = None if posterior.family.quadratic else data.offset
        X, weights, group, y = data.X, data.weights, data.group, data.y
    rows = positive_rows(X, offset, group).with_weights(weights)
    if posterior.family.counts:  # averages of rates are by exposure
        rows = rows.take(np.less(y, 0))
    return rows, True


def _check_rows(pseudo: NDArray[np.bool_] | None, method: str | None) -> None:
    if pseudo is not None and pseudo.any():
        raise DataError(
            "the coreset has pseudo-rows, which say nothing about the rows' columns; give rows as data, a sample"
        )
    if method not in _WHOLE:
        raise DataError(
            f"the rows are a coreset's of method {method!r}, which stands for all rows in the likelihood and not in "
            "averages; give all rows as data, their file or a random sample of them"
        )
