r"""What coefficients mean: odds ratios, and average predicted probabilities by the levels of a factor, from the draws.

.. math:: \mathrm{OR}_d = e^{c_d}, \qquad
          \bar p_k = \frac{\sum_{n \in k} w_n \, p(x_n \cdot \beta)}{\sum_{n \in k} w_n}

c_d is the coefficient in units of the data's own column, k a level: the rows that have it (``by=``), or all rows as if
they had it, the rest as it is (``variables=``), which tells the factor's own part apart from what goes with it. Each
draw of the posterior gives one figure, so that intervals are the posterior's; the rows are taken as they are.

Reference: Arel-Bundock, Greifer and Heiss (2024), How to interpret statistical models using marginaleffects, Journal of
Statistical Software 111, whose `avg_predictions` has the same two arguments.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.design import Design
from bayescore.data.formulas.design import categories_of, formula_of
from bayescore.data.matching import check_same_design
from bayescore.data.passes.threads import available_cores, one_blas_thread
from bayescore.data.tables import feature_matrix
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.samplers.new_rows import groups_of, offset_of, positive_rows
from bayescore.types import NO_ROW, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer, check_positive

MAX_VALUES = 20  # of a column of numbers that is taken for a factor
_ROWS = 1024  # of a thread's piece: fixed, so that the number of threads changes no bit


def odds_ratios(idata: Any, *, ci_prob: float = 0.94) -> pd.DataFrame:
    """Return the odds ratios of a logistic posterior for one unit more of each column of the data.

    Of a factor's column it is that of the level against the first. The intercept has none.

    Parameters
    ----------
    idata : InferenceData
        From `sample`, or the corrected draws of a certificate.
    ci_prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    DataFrame
        A row for each coefficient; columns `median`, `lower` and `upper`.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or of another likelihood, whose coefficients are no log odds ratios.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> core = bc.all_rows(X, X[:, 0] + rng.logistic(size=5000) > 0, intercept=True, progressbar=False)
    >>> idata = bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
    >>> bc.odds_ratios(idata)["median"].round(1).to_dict()
    {'x0': 2.7}
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    if posterior.family.ratio != "odds ratio":
        raise DataError(
            f"idata has the family {posterior.family.name!r}, whose coefficients are no log odds ratios; see "
            "average_predictions"
        )
    tail = 0.5 * (1.0 - check_positive(ci_prob, "ci_prob", below=1.0))
    design = posterior.design
    coef = posterior.flat if design is None else design.raw_coefficients(posterior.flat)
    middle, low, high = np.quantile(coef, [0.5, tail, 1.0 - tail], axis=0)
    with np.errstate(over="ignore"):  # infinite where rows are separated
        table = pd.DataFrame(
            {"median": np.exp(middle), "lower": np.exp(low), "upper": np.exp(high)},
            index=pd.Index(posterior.features, name="feature"),
        )
    constant = None if design is None else design.constant
    return table if constant is None else table.drop(index=posterior.features[constant])


def average_predictions(
    idata: Any,
    data: Any = None,
    *,
    by: str | None = None,
    variables: str | None = None,
    ci_prob: float = 0.94,
    max_draws: int = 1000,
) -> pd.DataFrame:
    """Return average predicted probabilities by the levels of a factor.

    Parameters
    ----------
    idata : InferenceData
        From `sample`, or the corrected draws of a certificate.
    data : data frame, array or WeightedData, optional
        Rows to average over: raw ones, as for `predict`, each of which counts once, or a coreset or
        ``all_rows(..., design=core.design)`` with their weights. By default the rows that the posterior was drawn
        from: a coreset's stand for all rows of the data, approximately.
    by : str
        Raw column whose levels part the rows: the average over the rows of each level.
    variables : str
        Raw column that is set to each level in turn, in all rows: the averages differ by its own part alone.
    ci_prob : float
        Probability of the equal-tailed intervals.
    max_draws : int
        Draws used, evenly spaced.

    Returns
    -------
    DataFrame
        A row for each level; `mean`, `lower` and `upper` of the average probability of the class that is +1, those of
        its difference to the first level, `difference`, `difference_lower` and `difference_upper`, and the rows'
        `weight`.

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
    rows, columns = _rows(idata, posterior, design, data, name, every=variables is not None)
    if not len(rows):
        raise DataError("data has no rows, so there is no average; give at least one")
    weights = rows.weights
    levels, codes = _levels(design, name, columns[name])
    if variables is None:
        sums = sums_of_levels(predictor, family, rows, codes, len(levels))
        total = np.bincount(codes, weights, len(levels))
    else:
        total, each = np.full(len(levels), weights.sum()), []
        raw = np.column_stack([columns.get(own, np.zeros(len(weights))) for own in design.raw_names])
        text = name in dict(design.raw_levels)
        for place, level in enumerate(levels):
            raw[:, design.raw_names.index(name)] = place if text else level
            everyone = np.zeros(len(raw), dtype=np.int64)
            each.append(sums_of_levels(predictor, family, replace(rows, X=design.transform(raw)), everyone, 1)[0])
        sums = np.stack(each)
    seen = total > 0.0
    average = sums[seen] / total[seen, None]
    table: dict[str, Any] = {}
    for prefix, figures in (("", average), ("difference", average - average[:1])):
        table[prefix or "mean"] = figures.mean(axis=1)
        bounds = np.quantile(figures, [tail, 1.0 - tail], axis=1)
        join = f"{prefix}_" if prefix else ""
        table |= {f"{join}lower": bounds[0], f"{join}upper": bounds[1]}
    index = pd.Index([level for level, there in zip(levels, seen, strict=True) if there], name=name)
    return pd.DataFrame({**table, "weight": total[seen]}, index=index)


def _rows(
    idata: Any, posterior: Posterior, design: Design, data: Any, name: str, *, every: bool
) -> tuple[WeightedData, Mapping[str, FloatArray]]:
    """Return rows of the design matrix, labels +1, and raw columns: `name`, or if `every` all of them."""
    if data is not None and not isinstance(data, WeightedData):
        raw = feature_matrix(data, design.raw_names, design.raw_levels)
        n = len(raw)
        beside = offset_of(posterior, data, n, None), groups_of(posterior, data, n, None)
        rows = positive_rows(design.transform(raw), *beside)
        return rows, dict(zip(design.raw_names, raw.T, strict=True))
    if data is None:
        constants = idata.get("constant_data", {})
        if "X" not in constants or "weights" not in constants:
            raise DataError("idata has no rows in its group constant_data; give data")
        if "row" in constants["X"].coords:
            _check_rows(constants["X"].coords["row"].values == NO_ROW)
        X, weights = (np.asarray(constants[key].values, dtype=np.float64) for key in ("X", "weights"))
        offset = np.asarray(constants["offset"].values) if posterior.offset is not None else None
        group = np.asarray(constants["group"].values) if "group" in constants else None
    else:
        check_same_design(data, posterior.features, posterior.design, "data")
        _check_rows(data.pseudo)
        X, weights, offset, group = data.X, data.weights, data.offset, data.group
    wanted = design.raw_names if every else (name,)
    columns = {own: _raw_column(design, X, own) for own in wanted}
    lost = [own for own, column in columns.items() if column is None]
    if lost:
        raise DataError(
            f"the rows of the design matrix do not tell {lost[0]!r} (formula={formula_of(design)!r}); give raw rows as "
            "data, a sample of them"
        )
    told = {own: column for own, column in columns.items() if column is not None}
    return positive_rows(X, offset, group).with_weights(weights), told


def _check_rows(pseudo: NDArray[np.bool_]) -> None:
    if pseudo.any():
        raise DataError(
            "the coreset has pseudo-rows, which tell nothing of the rows' columns; give rows as data, a sample"
        )


def _raw_column(design: Design, X: FloatArray, name: str) -> FloatArray | None:
    """Return a raw column, of a factor the places of its levels, told by columns of the design; None if none tells."""
    names = list(design.names)
    lead = int(design.intercept)

    def column(of: str) -> FloatArray | None:
        if of not in names[lead:]:
            return None
        d = names.index(of, lead)
        scale = 1.0 if design.scale is None else design.scale[d - lead]
        center = 0.0 if design.center is None else design.center[d - lead]
        return np.asarray(X[:, d] * scale + center)

    found = column(name)
    if found is not None:
        return found
    for term, levels in _factors(design, name).items():
        ones = [(place, column(f"{term}[{level}]")) for place, level in enumerate(levels)]
        told = [(place, own) for place, own in ones if own is not None]
        if len(told) == len(levels) - 1 and ones[0][1] is None:  # coded against the first
            codes = np.sum([place * np.rint(own) for place, own in told], axis=0)
            text = name in dict(design.raw_levels)
            return np.asarray(codes if text else np.asarray(levels)[codes.astype(np.int64)], dtype=np.float64)
    return None


def _factors(design: Design, name: str) -> dict[str, tuple[Any, ...]]:
    """Return the terms that a column may make as a factor, and its levels."""
    return {term: categories_of(design, name, term) for term in (name, f"C({name})")}


def factor_levels(design: Design, name: str) -> tuple[Any, ...]:
    """Return the levels of a raw column that is a factor of the design; empty of a column of numbers."""
    return next((levels for levels in _factors(design, name).values() if levels), ())


def _levels(design: Design, name: str, column: FloatArray) -> tuple[list[Any], IntArray]:
    """Return the levels of a raw column, and each row's place among them."""
    text = dict(design.raw_levels).get(name)
    if text is not None:
        return list(text), np.rint(column).astype(np.int64)
    values, codes = np.unique(np.round(column, 9), return_inverse=True)
    if len(values) > MAX_VALUES:
        raise DataError(
            f"column {name!r} has {len(values)} values in these rows, more than {MAX_VALUES}: it is no factor; give "
            "one that is, or rows of few values"
        )
    return [int(v) if v == round(v) else float(v) for v in values], np.asarray(codes, dtype=np.int64)


def sums_of_levels(
    predictor: Predictor, family: Family, rows: WeightedData, codes: IntArray, n_levels: int
) -> FloatArray:
    """Return sum w p over the rows of each level under each draw, shape (K, S)."""

    def piece(cut: slice) -> FloatArray:
        part = rows.take(cut)
        shares = np.zeros((n_levels, len(part)))
        shares[codes[cut], np.arange(len(part))] = part.weights
        return np.asarray(shares @ predictor.average(part, family.mean))

    cuts = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
    with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
        return sum(threads.map(piece, cuts), np.zeros(()))
