r"""Average predicted probabilities by the levels of a factor, from the draws, over rows in memory or of any source.

.. math:: \bar p_k = \frac{\sum_{n \in k} w_n \, p(x_n \cdot \beta)}{\sum_{n \in k} w_n}

k is a level: the rows that have it (``by=``), or all rows as if they had it, the rest as it is (``variables=``), which
tells the factor's own part apart from what goes with it. Each draw of the posterior gives one figure, so that intervals
are the posterior's; the rows are taken as they are. Of more than `EVERY_ROW` rows a sample stands for what is beyond
second order (`average_sums`); where it does not tell enough, each row is evaluated at each draw after all.

Reference: Arel-Bundock, Greifer and Heiss (2024), How to interpret statistical models using marginaleffects, Journal of
Statistical Software 111, whose `avg_predictions` has the same two arguments.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.designed import open_in
from bayescore.data.formulas.design import formula_of
from bayescore.data.matching import check_same_design
from bayescore.data.sources.memory import rows_source
from bayescore.data.sources.paired import RATES
from bayescore.data.tables import feature_matrix, is_dask, is_table
from bayescore.diagnostics.average_sums import Levels, LevelSums, every_row, sampled
from bayescore.diagnostics.full_pass import check_finite
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.samplers.new_rows import groups_of, offset_of, positive_rows
from bayescore.samplers.raw_columns import raw_column
from bayescore.types import NO_ROW, FloatArray, WeightedData
from bayescore.validation import DataError, check_integer, check_positive

MAX_VALUES = 20  # of a column of numbers that is taken for a factor
EVERY_ROW = 50_000  # rows up to which each is evaluated at each draw: a sample would save little
_BLOCK = 1024  # rows of a thread's piece in memory
_SHARE = 0.1  # of the posterior sd of an average, or of a difference, that the sample's error may be
_NEGLIGIBLE = 1e-6  # probability that an average may be off by in any case


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
    ci_prob: float = 0.94,
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
        full data in any form that `certify` takes, such as the path of a Parquet file or a Dask DataFrame; or a coreset
        or ``all_rows(..., design=core.design)`` with their weights. By default the rows that the posterior was drawn
        from: a coreset's stand for all rows of the data, approximately.
    by : str
        Raw column whose levels part the rows: the average over the rows of each level.
    variables : str
        Raw column that is set to each level in turn, in all rows: the averages differ by its own part alone.
    label, weights, offset, trials, exposure, missing, groups
        Of the full data, as given to `build_coreset`; of raw rows in memory none is needed.
    ci_prob : float
        Probability of the equal-tailed intervals.
    max_draws : int
        Draws used, evenly spaced.
    progressbar : bool
        Show progress of a pass over a file or another large source.

    Returns
    -------
    DataFrame
        A row for each level; `mean`, `lower` and `upper` of the average probability of the class that is +1, those of
        its difference to the first level, `difference`, `difference_lower` and `difference_upper`, the rows' `weight`,
        and `sampling_se`, the standard error of the average because some of many rows stand for all; 0 where each row
        was evaluated.

    Raises
    ------
    TypeError, ValueError, DataError
        Unless one of `by` and `variables` names a column of the data that is a factor, or has at most 20 values; if
        the rows of a coreset, which are those of the design matrix, do not tell it; if there are no rows.

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
    name = str(by if variables is None else variables)
    posterior = read_posterior(idata, "idata", min_draws=1)
    family, design = posterior.family, posterior.design
    if design is None:
        raise DataError("idata does not tell the columns of its data; give what sample returned for a coreset")
    if name not in design.raw_names:
        raise DataError(f"{'by' if variables is None else 'variables'}={name!r} is no column of the data; they are "
                        f"{', '.join(map(repr, design.raw_names[:10]))}")  # fmt: skip
    tail = 0.5 * (1.0 - check_positive(ci_prob, "ci_prob", below=1.0))
    predictor = posterior.predictor(check_integer(max_draws, "max_draws", low=1))
    beside = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    beside["groups"] = groups
    beside = {key: value for key, value in beside.items() if value is not None}
    if missing != "raise":
        beside["missing"] = missing
    memory = data is None or isinstance(data, WeightedData | list | tuple) or is_table(data)
    if beside or not (memory or (hasattr(data, "shape") and not is_dask(data))):
        opened = open_in(design, data, new_groups=True, progress=progressbar, whose="the posterior's data", **beside)
        dataset, designed = Dataset(opened.rows, progress=progressbar), isinstance(data, WeightedData)
    else:
        rows, designed = _rows(idata, posterior, design, data, name, every=variables is not None)
        small = _BLOCK if len(rows) <= EVERY_ROW else None
        dataset = Dataset(rows_source(rows), block_rows=small)
    if not dataset.source.n_rows:
        raise DataError("data has no rows, so there is no average; give at least one")
    shown, values = _levels(dataset, design, name, designed=designed)
    sides = family.counts and dataset.source.classes == RATES.classes
    levels = Levels(design, name, values, variables is not None, designed, sides)
    found = _sums(dataset, levels, predictor, family)
    check_finite(dataset, found.values)
    seen = found.weight > 0.0
    average, error = found.values[seen] / found.weight[seen, None], found.error[seen] / found.weight[seen]
    table: dict[str, Any] = {}
    for prefix, figures in (("", average), ("difference", average - average[:1])):
        table[prefix or "mean"] = figures.mean(axis=1)
        bounds = np.quantile(figures, [tail, 1.0 - tail], axis=1)
        join = f"{prefix}_" if prefix else ""
        table |= {f"{join}lower": bounds[0], f"{join}upper": bounds[1]}
    index = pd.Index([level for level, there in zip(shown, seen, strict=True) if there], name=name)
    return pd.DataFrame({**table, "weight": found.weight[seen], "sampling_se": error}, index=index)


def _sums(dataset: Dataset, levels: Levels, predictor: Predictor, family: Family) -> LevelSums:
    """Return the sums of each level at the draws, from a sample of many rows where that tells enough."""
    if dataset.source.n_rows > EVERY_ROW and not predictor.factors:
        found = sampled(dataset, levels, predictor.beta, family)
        if found is not None and _tells(found):
            return found
    return every_row(dataset, levels, predictor, family)


def _tells(found: LevelSums) -> bool:
    """Whether errors from the sample are small beside the posterior sds of averages and of their differences."""
    seen = found.weight > 0.0
    average, error = found.values[seen] / found.weight[seen, None], found.error[seen] / found.weight[seen]
    return all(
        bool((own <= np.maximum(_SHARE * figures.std(axis=1), _NEGLIGIBLE)).all())
        for own, figures in ((error, average), (np.hypot(error, error[:1])[1:], (average - average[:1])[1:]))
    )


def _levels(dataset: Dataset, design: Design, name: str, *, designed: bool) -> tuple[list[Any], tuple[float, ...]]:
    """Return the levels of a raw column, as they are shown and as numbers; of a column of numbers by a pass."""
    text = dict(design.raw_levels).get(name)
    if text is not None:
        return list(text), tuple(map(float, range(len(text))))
    column = Levels(design, name, (), everyone=False, designed=designed).column

    def one(_: int, block: WeightedData) -> FloatArray:
        return np.unique(np.round(column(block), 9))[: MAX_VALUES + 1]

    values: FloatArray = np.zeros(0)
    for found in dataset.map(one, "learning levels"):
        values = np.union1d(values, found)
        if len(values) > MAX_VALUES:
            raise DataError(
                f"column {name!r} has more than {MAX_VALUES} values in these rows: it is no factor; give one that is, "
                "or rows of few values"
            )
    return [int(v) if v == round(v) else float(v) for v in values], tuple(map(float, values))


def _rows(
    idata: Any, posterior: Posterior, design: Design, data: Any, name: str, *, every: bool
) -> tuple[WeightedData, bool]:
    """Return rows in memory, labels +1, and whether they are of the design matrix, which tells the column `name`.

    If `every` it must tell all columns.
    """
    if data is not None and not isinstance(data, WeightedData):
        raw = feature_matrix(data, design.raw_names, design.raw_levels)
        n = len(raw)
        beside = offset_of(posterior, data, n, None), groups_of(posterior, data, n, None)
        return positive_rows(raw, *beside), False
    if data is None:
        constants = idata.get("constant_data", {})
        if "X" not in constants or "weights" not in constants:
            raise DataError("idata has no rows in its group constant_data; give data")
        if "row" in constants["X"].coords:
            _check_rows(constants["X"].coords["row"].values == NO_ROW)
        X, weights = (np.asarray(constants[key].values, dtype=np.float64) for key in ("X", "weights"))
        offset = np.asarray(constants["offset"].values) if posterior.offset is not None else None
        group = np.asarray(constants["group"].values) if "group" in constants else None
        y = np.asarray(constants["y"].values) if posterior.family.counts else np.zeros(0)
    else:
        check_same_design(data, posterior.features, posterior.design, "data")
        _check_rows(data.pseudo)
        X, weights, offset, group, y = data.X, data.weights, data.offset, data.group, data.y
    wanted = design.raw_names if every else (name,)
    lost = [own for own in wanted if raw_column(design, X[:1], own) is None]
    if lost:
        raise DataError(
            f"the rows of the design matrix do not tell {lost[0]!r} (formula={formula_of(design)!r}); give raw rows as "
            "data, a sample of them"
        )
    rows = positive_rows(X, offset, group).with_weights(weights)
    if posterior.family.counts:  # averages of rates are by exposure
        rows = rows.take(np.less(y, 0))
    return rows, True


def _check_rows(pseudo: NDArray[np.bool_]) -> None:
    if pseudo.any():
        raise DataError(
            "the coreset has pseudo-rows, which tell nothing of the rows' columns; give rows as data, a sample"
        )
