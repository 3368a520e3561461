r"""Fits of ordered categories: the steps between them are a fit of labels, and answers are by category.

With thresholds c_1, ..., c_(K-1) and a link's distribution function F a row stops at the category k with

.. math:: P(y = k \mid y \ge k) = F(c_k - \eta), \qquad P(y = k) = F(c_k - \eta) \prod_{j < k} (1 - F(c_j - \eta)),

the model that brms and bambi call ``sratio``: a positive coefficient makes high categories more likely. Its likelihood
is that of the labels of `data.steps`, with the probability 1 - F(c - eta) of "continued", so that certificates and
draws are those of any fit. The family of these labels is logistic, probit or, of cloglog, loglog; the intercept is
-c_1, and ``step[...]`` of another threshold is c_1 - c_k.

With cloglog it is the model of proportional hazards, which is cumulative, too: P(y <= k) = F(d_k - eta) with
exp(d_k) = exp(c_1) + ... + exp(c_k).

References: Tutz (1991), Sequential models in categorical regression, Computational Statistics & Data Analysis 11. Läärä
and Matthews (1985), The equivalence of two models for ordinal data, Biometrika 72.

Averages of fits of ordered categories over rows: predictions, comparisons and slopes of each category.

A row's probability of the category k is a product over its steps,

.. math:: P_k = (1 - p_k) r_k, \qquad P_k' = (1 - p_k) r_k' - p_k' r_k, \qquad r_k = \prod_{j < k} p_j,

p_j that of going past the threshold j, and p_K = 0; so each row has a step for every threshold here, whatever its
category. What is compared, and how a slope is taken, is as in `fitting.predictions`; each row is evaluated at each
draw.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from bayescore.compat import as_arviz, as_xarray, elpd_data
from bayescore.data.column_kinds import as_table
from bayescore.data.dataset import Dataset
from bayescore.data.factors import columns_of
from bayescore.data.formula_parsing import parsed
from bayescore.data.open import spelled_out
from bayescore.data.parquet import reads_like_formula
from bayescore.data.responses import Expression
from bayescore.data.steps import (
    CONTINUED,
    STEP,
    Ordered,
    Steps,
    as_rows,
    check_columns,
    count_categories,
    every_step,
    first_step,
    threshold_names,
    views_as_text,
    with_categories,
)
from bayescore.data.tables import check_not_read, is_table
from bayescore.diagnostics.averages import (
    MAX_EVALUATED,
    AveragedRows,
    ContrastCells,
    averaged_rows,
    check_by,
    refuse_grouping_factor,
)
from bayescore.diagnostics.elpd import psis_loo
from bayescore.diagnostics.loo import loo_draws, weights_of, weights_remedy
from bayescore.families import Family
from bayescore.fitting.parts import check_model_spread, draws_attrs, interval_names, labelled, rows_of_fit, summarise
from bayescore.fitting.predictions import MAX_BYTES, AverageDraws, Contrasts, by_chain, index_of, predictions_of
from bayescore.fitting.result import Fit
from bayescore.fitting.tables import Overview, overview
from bayescore.limits import PROB
from bayescore.models.predictor import Predictor
from bayescore.samplers.posterior import in_data_units
from bayescore.samplers.predict import (
    cells_of_population,
    design_rows,
    groups_of,
    map_new_rows,
    offset_of,
    probabilities,
)
from bayescore.text import number
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RandomState, check_choice, check_generator, check_integer, one_seed

_AVERAGED = 1 << 18  # probabilities of steps at a time


CATEGORY = "category"


def check_variable(name: str | None) -> None:
    """Raise if a column that is changed is that of the thresholds."""
    if name == STEP:
        raise DataError(f"{STEP!r} is which threshold a step is at, and no column of the rows: name another")


def _checked(by: tuple[str, ...], max_draws: int) -> tuple[str, ...]:
    check_integer(max_draws, "max_draws", low=1)
    for name in by:
        check_variable(name)
    if CATEGORY in by:
        raise DataError(f"by={CATEGORY!r} has the name of the column of categories in what is returned: rename it")
    return by


def _step_rows(fit: "OrderedFit", by: tuple[str, ...], data: Any) -> AveragedRows:
    """Return rows to average over, as a step for each threshold, in blocks of whole rows."""
    if data is None:
        given = fit._rows_of_data
        check_columns(by, given.data.rows.schema.names)
        whole = replace(given, data=replace(given.data, every=True), known=True)
        rows = rows_of_fit(replace(fit.steps, _given=whole), by)
    elif is_table(data) or hasattr(data, "shape"):
        table = _table(data)
        check_columns((*by, *fit.coreset.design.raw_names), table.column_names)
        rows = averaged_rows(fit._posterior(), every_step(table, fit.categories), by=by)
    else:
        rows = averaged_rows(fit._posterior(), replace(fit.ordered.steps(data), every=True), by=by)
    n = len(fit.categories) - 1
    size = max(rows.dataset.block_rows // n, 1) * n
    return rows._replace(dataset=Dataset(rows.dataset.rows, progress=rows.dataset.progress, block_rows=size))


def _averages(
    contrasts: Contrasts,
    rows: AveragedRows,
    by: tuple[str, ...],
    categories: Sequence[Any],
    *,
    max_draws: int,
    sizes: FloatArray | None = None,
) -> AverageDraws:
    """Return each contrast of each category over each part of the rows, at draws; `sizes` are weights of the rows."""
    labels, cells = rows.parts(by, variable=contrasts.variable, contrasts=contrasts.changes, along=contrasts.along)
    n_draws, K, P = len(rows.posterior.positions(max_draws)), len(categories), cells.n_parts
    most = max(len(contrasts.names), len(contrasts.changes)) * P * K
    evaluated = rows.dataset.source.n_rows * float(n_draws) * sum(map(len, contrasts.changes))
    if 8 * most * n_draws > MAX_BYTES or evaluated > MAX_EVALUATED:
        raise DataError(
            f"{most:,} averages at {n_draws:,} draws are over {evaluated:.1g} probabilities of steps (limit "
            f"{MAX_EVALUATED:.1g}; {MAX_BYTES:,} bytes of averages): give a smaller max_draws, a sample of the rows as "
            "data, or part the rows by columns of fewer values"
        )
    sums, weight = _category_sums(rows, cells, max_draws, K, sizes)
    seen = np.flatnonzero(weight > 0.0)
    means = (sums.reshape(K, len(contrasts.changes), P, n_draws) / np.maximum(weight, 1e-300)[:, None])[:, :, seen]
    none = np.zeros(means.shape[1:3])
    values = np.stack([contrasts.figures(each, none)[0] for each in means], axis=2)
    levels = {name: [level[place] for place in seen for _ in range(K)] for name, level in labels.items()}
    levels[CATEGORY] = list(categories) * len(seen)
    C, n_parts = len(values), K * len(seen)
    more = {"sampling_se": np.zeros(C * n_parts)} if sizes is None else {"weight": np.repeat(weight[seen], K)}
    names = None if contrasts.column is None else pd.Index(contrasts.names, name=contrasts.column)
    return AverageDraws(values.reshape(C, n_parts, n_draws), names, index_of(levels), more, contrasts.null)


def _category_sums(
    rows: AveragedRows, cells: ContrastCells, max_draws: int, K: int, sizes: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return sums over rows at draws, of each category, contrast and part, shape (K, C * P, S), and weights, (P,)."""
    predictor, family, n = rows.posterior.predictor(max_draws), rows.posterior.family, K - 1
    size = max(_AVERAGED // (n * len(predictor)), 1) * n

    def of_block(start: int, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        block = cells.without_responses(block)
        if rows.posterior.terms and predictor.unknown(cells.with_model_groups(block)).any():
            raise DataError(
                "data has a group that the fit does not know, whose effect its rows share: average draws of "
                "fit.predict(rows, kind='draws')"
            )
        parts, w = cells.parts(block)[::n], block.weights[::n]
        if sizes is not None:
            w = sizes[start // n : start // n + len(w)]
        sums = np.zeros((len(cells.contrasts), cells.n_parts, K, len(predictor)))
        for contrast in range(len(cells.contrasts)):
            terms = cells.terms(block, contrast)
            for low in range(0, len(block), size):
                cut = slice(low, low + size)
                factors = [factor[cut].reshape(-1, n, 1) for factor, _ in terms]
                p = np.stack([predictor.average(each.take(cut), family) for _, each in terms])
                p = p.reshape(len(terms), -1, n, len(predictor))
                if cells.along is None:
                    parts_of = [factor[:, :1] * by_category(each) for factor, each in zip(factors, p, strict=True)]
                    values = np.sum(parts_of, axis=0)
                else:  # a step has a move of its own
                    values = slopes_by_category(p.mean(axis=0), (np.stack(factors) * p).sum(axis=0))
                piece = slice(low // n, low // n + len(values))
                for part in np.unique(parts[piece]):
                    counted = np.where(parts[piece] == part, w[piece], 0.0)
                    sums[contrast, part] += np.tensordot(counted, values, axes=1)
        return sums, np.asarray(np.bincount(parts, w, cells.n_parts), dtype=np.float64)

    total, weight = np.zeros((len(cells.contrasts), cells.n_parts, K, len(predictor))), np.zeros(cells.n_parts)
    for sums, of_parts in rows.dataset.map(of_block, "averaging", canonical=True):
        total, weight = total + sums, weight + of_parts
    return np.moveaxis(total, 2, 0).reshape(K, -1, len(predictor)), weight


def by_category(p: FloatArray) -> FloatArray:
    """Return probabilities of categories, shape (n, K, S), given those of going past each threshold, (n, K - 1, S)."""
    reached = np.concatenate([np.ones_like(p[:, :1]), np.cumprod(p, axis=1)], axis=1)
    reached[:, :-1] *= 1.0 - p
    return reached


def slopes_by_category(p: FloatArray, slope: FloatArray) -> FloatArray:
    """Return derivatives of what `by_category` returns, given those of `p`."""
    slopes = np.empty((len(p), p.shape[1] + 1, p.shape[2]))
    reached, rise = np.ones_like(p[:, 0]), np.zeros_like(p[:, 0])
    for k in range(p.shape[1]):
        slopes[:, k] = rise * (1.0 - p[:, k]) - reached * slope[:, k]
        reached, rise = reached * p[:, k], rise * p[:, k] + reached * slope[:, k]
    slopes[:, -1] = rise
    return slopes


LINKS = {"logit": "logistic", "probit": "probit", "cloglog": "loglog"}
"""Families of the label "continued" by the link of the label "stopped"."""


_NAME = re.compile(r"(sratio|cumulative)(?:\((?:link=)?['\"]?(\w+)['\"]?\))?")


_NUMBERS = 1 << 24  # probabilities at a time


_DRAWS = 500  # that rows are left out of


_TINY = float(np.finfo(np.float64).tiny)


def link_of(family: str) -> str:
    """Return the link of a family's name, such as "sratio(probit)"; raise `ValueError` if it has none that is known."""
    match = _NAME.fullmatch(family.strip().lower())
    link = (match[2] or "logit") if match else ""
    if link not in LINKS:
        raise ValueError(
            f"family={family!r} must be 'sratio', of the link logit, 'sratio(probit)' or 'sratio(cloglog)'"
        )
    if match and match[1] == "cumulative":
        same = "is family='sratio(cloglog)', with the same coefficients and predictions: give that"
        other = "is not fitted: give family='sratio', or 'sratio(cloglog)', the one of these that is cumulative, too"
        raise ValueError(f"family={family!r} {same if link == 'cloglog' else other}")
    return link


def family_of_steps(family: str) -> str:
    """Return the family of the steps of a family of ordered categories."""
    return LINKS[link_of(family)]


def ordered_fit(known: Ordered, found: Fit) -> "OrderedFit":
    """Return a fit of steps as one of categories; its elpd, by single steps left out, is not theirs."""
    certificate = found.certificate._with(elpd_loo=math.nan, elpd_loo_se=math.nan)
    return OrderedFit(**{**_fields(found), "certificate": certificate}, ordered=known)


def _fields(fit: Fit) -> dict[str, Any]:
    return {each.name: getattr(fit, each.name) for each in fields(Fit)}


def ordered_rows(
    formula: Any, data: Any, family: str, roles: Mapping[str, Any], refused: Mapping[str, Any]
) -> tuple[Ordered, str, Steps]:
    """Return what is known of rows of ordered categories, and formula and rows of their steps; arguments as of `fit`.

    `refused` are those that do not go with ordered categories.
    """
    link = link_of(family)
    if misplaced := [name for name, value in refused.items() if value is not None]:
        raise DataError(f"{misplaced[0]} does not go with family={family!r}: leave it out")
    arrays = [name for name in ("weights", "offset") if not isinstance(roles[name], str | None)]
    if arrays or not isinstance(roles["groups"], str | list | tuple | None):
        raise DataError(f"{(arrays or ['groups'])[0]} of family={family!r} must be the name of a column of the rows")
    by_formula = isinstance(formula, str) and reads_like_formula(formula)
    if by_formula and data is None:
        raise TypeError(f"formula={formula!r}, but data is missing: give the rows, fit(formula, rows)")
    left = formula.partition("~")[0].strip() if by_formula else ""
    given, y = (data, None) if by_formula else (formula, data)
    rows, response = as_rows(given, y, roles["label"], left=left)
    if response is None and not left:
        raise DataError("the response is missing: name the column of the categories left of the formula, or as label")
    text = formula if by_formula else f"`{response}` ~ ."
    text = spelled_out(text, rows, roles={**roles, "label": response})
    asked, names = parsed(text), rows.schema.names
    response = str(asked.response or response)
    if asked.trials is not None or not any(str(term) == "1" for term in asked.terms):
        what = "trials" if asked.trials else "no intercept, whose place thresholds take"
        raise DataError(f"formula={text!r} has {what}; write response ~ terms, without 0")
    computed = [each for each in (asked.offset, roles["offset"], roles["weights"]) if each is not None]
    given_groups = [roles["groups"]] if isinstance(roles["groups"], str) else roles["groups"] or ()
    read = [name for each in computed for name in Expression.of(each, names).columns]
    for each in (*given_groups, *(term.column for term in asked.groups)):
        read += columns_of(each, names)
    clusters = [name for name in (roles["cluster"], roles["strata"]) if isinstance(name, str)]
    check_columns((*asked.columns, *read, *clusters), names)
    alone = [str(term) for term in asked.terms if re.fullmatch(rf"(\w+\(\s*)?{STEP}\b[^:]*", str(term))]
    if alone and STEP not in names:
        raise DataError(
            f"formula={text!r} has {alone[0]!r}, and each threshold has a coefficient anyway: leave it out, or write "
            f"x:{STEP} for a coefficient of x at each"
        )
    columns = list(dict.fromkeys(name for name in (response, *asked.columns, *read) if name in names))
    drop = check_choice(roles["missing"], "missing", ("raise", "drop")) == "drop"
    steps, occurring = with_categories(Steps(rows, response, tuple(columns), drop=drop), roles["weights"])
    counts = [occurring.counts[level] for level in steps.categories]
    weights = [occurring.weights[level] for level in steps.categories]
    about = Ordered(link, response, text, list(steps.categories), counts, sum(weights), columns, drop, weights)
    return about, f"{CONTINUED} ~ {text.partition('~')[2]} + {STEP}", steps


@dataclass(frozen=True, eq=False, repr=False)
class OrderedFit(Fit):
    """What `fit` returns of ordered categories: a `Fit` whose answers are by category.

    `steps` is the fit of the labels "continued" that it is made of; it answers what is not by category. Draws,
    certificate and story are of these.

    Parameters
    ----------
    ordered : Ordered
        What the fit of the steps does not know: categories, how many rows have each, response and formula.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"x": rng.normal(size=3000)})
    >>> latent = rows["x"] + rng.logistic(size=3000)
    >>> rows["rating"] = pd.cut(latent, [-9e9, -1, 1, 9e9], labels=["poor", "fair", "good"])
    >>> fit = bc.fit("rating ~ x", rows, family="sratio", random_state=1, progressbar=False)
    >>> list(fit.summary().index)
    ['threshold[poor|fair]', 'threshold[fair|good]', 'x']
    >>> fit.predict(pd.DataFrame({"x": [-1.0, 1.0]}))["mean"].round(1).values.tolist()
    [[0.5, 0.4, 0.1], [0.1, 0.3, 0.5]]
    """

    _instead_of_ratios: ClassVar[str] = "predict, which has the probability of each category"

    ordered: Ordered = None  # type: ignore[assignment]  # after fields that have defaults

    @cached_property
    def steps(self) -> Fit:
        """The fit of the steps, as labels."""
        return Fit(**_fields(self))

    @property
    def categories(self) -> tuple[Any, ...]:
        """The categories, from low to high."""
        return tuple(self.ordered.categories)

    @property
    def formula(self) -> str:
        """The formula."""
        return self.ordered.formula

    @cached_property
    def idata(self) -> Any:
        """The draws to use, as `Fit.idata`, with the thresholds among the coefficients."""
        tree = in_data_units(self._used, self.coreset.design)
        made = as_xarray(tree["posterior"])
        names, draws = self._named(list(made["coef"].coords["feature"].values), made["coef"].values)
        tree["posterior"] = made.assign(coef=(made["coef"].dims, draws)).assign_coords(feature=names)
        return as_arviz(tree)

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd and interval of thresholds, coefficients and sds of effects; see `Fit.summary`."""
        if scale == "response":
            raise DataError(
                "scale='response' is one figure for each column, and here it is one for each category, too: see "
                "comparisons and slopes"
            )
        return super().summary(scale=scale, prob=prob)

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
        """Return the posterior of the probability of each category of new rows.

        Parameters
        ----------
        new : data frame or array, n rows
            Raw features, as given to `fit`.
        kind : {"mean", "response", "draws"}
            Mean, sd and interval of each probability, draws of the rows' categories, or of the probabilities.
        offset, groups, new_groups, prob, random_state, random_seed
            As in `Fit.predict`; the effects of new groups are drawn, not averaged over.
        exposure : None
            Refused: it is for counts.

        Returns
        -------
        DataFrame or DataArray
            A data frame whose columns are mean, sd and ends of the interval, each with a column for each category:
            ``predict(new)["mean"]`` has the probabilities. Or draws, dims sample, row and category.
        """
        check_choice(kind, "kind", ("mean", "response", "draws"))
        if exposure is not None:
            raise DataError("exposure is given, and the fit is of ordered categories; leave it out")
        if new_groups != "sample":
            raise DataError(f"new_groups={new_groups!r} would average each step of a row by itself; give 'sample'")
        low, high, _ = interval_names(prob)
        rng = check_generator(one_seed(random_state, random_seed, default=0))
        seed, table, categories = int(rng.integers(1 << 31)), _table(new), pd.Index(self.categories, name="category")
        self._check_rows(table, offset, groups)
        parts: list[Any] = []
        for _, p in self._tiles(table, None, seed, offset, groups):
            if kind == "mean":
                figures = summarise(p.reshape(-1, p.shape[2]), prob).values()
                parts.append(np.concatenate([each.reshape(p.shape[:2]) for each in figures], axis=1))
            elif kind == "draws":
                parts.append(np.moveaxis(p, 2, 0))
            else:
                place = (np.cumsum(p[:, :-1], axis=1) < rng.random((len(p), 1, p.shape[2]))).sum(axis=1)
                parts.append(categories.to_numpy()[place.T])
        values = np.concatenate(parts, axis=0 if kind == "mean" else 1)
        if kind == "mean":
            columns = pd.MultiIndex.from_product([["mean", "sd", low, high], categories])
            index = new.index if isinstance(new, pd.DataFrame) else None
            return labelled(self, pd.DataFrame(values, columns=columns, index=index))
        dims, coords = ("sample", "row", "category"), {"category": categories}
        if kind == "response":
            return xr.DataArray(values, dims=dims[:2], attrs=draws_attrs(self))
        return xr.DataArray(values, dims=dims, coords=coords, attrs=draws_attrs(self))

    def _average(
        self,
        variable: str | None,
        asked: Callable[[AveragedRows], Contrasts],
        by: str | Sequence[str] | None,
        data: Any,
        *,
        draws: bool,
        prob: float,
        max_draws: int,
    ) -> Any:
        """Return contrasts of each category, averaged over all rows of the fit, or others, as a table or as draws."""
        check_variable(variable)
        features = [name for name in self.coreset.design.raw_names if name != STEP]
        if variable is not None and variable not in features:
            refuse_grouping_factor(self.coreset.design, variable, repr(variable))
            check_columns([variable], features)
        interval_names(prob)
        names = _checked(check_by(by), max_draws)
        rows = _step_rows(self, names, data)
        average_draws = _averages(asked(rows), rows, names, self.categories, max_draws=max_draws)
        return by_chain(self, average_draws, max_draws) if draws else labelled(self, average_draws.table(prob))

    def _poststratified(self, cells: Any, by: str | Sequence[str], weights: str, max_draws: int) -> AverageDraws:
        names = _checked(check_by(by or None), max_draws)
        table, sizes = cells_of_population(cells, weights)
        if not sizes.any():
            raise DataError(f"weights (column {weights!r}) are all 0; drop these cells")
        rows = _step_rows(self, names, views_as_text(table))
        return _averages(predictions_of(rows, None), rows, names, self.categories, max_draws=max_draws, sizes=sizes)

    def check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Hold predicted shares of steps that went on against observed ones; see `Fit.check`.

        They are those of all thresholds in bins of like prediction; by "step" of each.
        """
        return self.steps.check(self._checked(data, y, by), by=by)

    def plot_check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> Any:
        """Draw what `check` has; see `Fit.plot_check`."""
        return self.steps.plot_check(self._checked(data, y, by), by=by)

    def _checked(self, data: Any, y: Any, by: Any) -> Steps | None:
        """Return the steps of rows to check, None for those of the fit; raise unless they have the columns `by`."""
        steps = None if data is None else self.ordered.steps(data, y)
        if names := check_by(by):
            check_columns(names, (steps or self._rows_of_data.data).rows.schema.names)
        return steps

    def cluster_robust(self, cluster: Any, *, strata: Any = None, lonely: str = "raise") -> Fit:
        """Return the fit with draws whose spread is robust to dependent rows; see `Fit.cluster_robust`."""
        if columns := [name for name in (cluster, strata) if isinstance(name, str)]:
            for name in columns:
                check_variable(name)
            check_columns(columns, self._rows_of_data.data.rows.schema.names)
        return super().cluster_robust(cluster, strata=strata, lonely=lonely)

    def loo(self) -> Any:
        """Return the leave-one-out predictive density of each row, all its steps left out; see `Fit.loo`."""
        check_model_spread(self, "loo")
        if self.coreset.design.weighted:
            raise DataError("loo counts rows, and these have weights: leave rows out of a fit without weights")
        model = loo_draws("the fit", self._used, self.coreset, _DRAWS, weighted=False)
        full = weights_of(model, sum(log_p.sum(axis=0) for log_p in self._log_likelihoods()))
        if not full.good:
            raise DataError(f"the fit: {weights_remedy(full)}")
        with np.errstate(divide="ignore"):
            log_w = np.log(full.weights)
        parts = []
        for log_p in self._log_likelihoods():
            fitted = logsumexp(log_p + log_w, axis=1)
            left = psis_loo(log_p, full.log_ratio)
            parts.append(np.stack([left.value, left.k, fitted]))
        value, k, fitted = np.concatenate(parts, axis=1)
        return elpd_data(value, k, float((fitted - value).sum()), len(model.predictor))

    def update(
        self, new: Any = None, y: Any = None, *, missing: str = "raise", data: Any = None, **options: Any
    ) -> Fit:
        """Return the fit of the rows so far and of new ones; see `Fit.update`."""
        about, rows = self.ordered, None
        if new is not None:
            rows = about.steps(new, y, missing=missing)
            seen = count_categories(rows, self.coreset.design.role_columns.get("weights"))
            if unknown := [level for level, n in seen.n_rows.items() if n and level not in about.categories]:
                raise DataError(f"new has the category {unknown[0]!r}, which the fit does not know: fit all rows anew")
            about = about.with_rows(seen)
        with nullcontext() if rows is None or data is not None else rows.naming_rows():  # else it could be of either
            updated = self.steps.update(rows, data=None if data is None else about.steps(data), **options)
        return ordered_fit(about, updated)

    def with_prior(self, prior: Any) -> Fit:
        """Return the fit under another prior; see `Fit.with_prior`."""
        return ordered_fit(self.ordered, self.steps.with_prior(prior))

    def plot(self, variable: str | None = None, *, by: str | None = None, data: Any = None, prob: float = PROB) -> Any:
        """Draw the coefficients; see `Fit.plot`."""
        if variable is not None:
            raise DataError(f"variable={variable!r} has a curve for each category: plot fit.predict of a grid of rows")
        return super().plot(by=by, data=data, prob=prob)

    @property
    def _family_asked(self) -> str:
        return f"sratio({self.ordered.link})"

    @property
    def _n_observations(self) -> int:
        return sum(self.ordered.counts)

    @property
    def _data_facts(self) -> dict[str, str]:
        n, steps = f"{self._n_observations:,}", f"{self.coreset.n_total:,}"
        return {"Observations": n, "Response": self._shares, "Steps between categories": steps}

    @property
    def _shares(self) -> str:
        each = zip(self.categories, self.ordered.shares, strict=True)
        return f"{self.ordered.response} = " + ", ".join(f"{name}: {number(100.0 * share, 3)}%" for name, share in each)

    def _overview(self) -> Overview:
        shown = overview(self)
        end = shown.end
        if self.certificate.trusted and self._has_rows:
            end = end.partition("next: ")[0] + 'next: fit.predict(rows), fit.check(), fit.report("report.html")'
        groups = "".join(f", {len(each):,} groups of {each.name}" for each in self.coreset.groups)
        notes = [note.replace("the intercept", "minus the first threshold") for note in shown.notes]
        notes = [note.replace("fit.prior_sens", "fit.steps.prior_sens") for note in notes if note[:8] != "Weights:"]
        if self.coreset.design.weighted:
            notes.append(f"Weights: {self._n_observations:,} rows count as {self.ordered.weight:,.6g}.")
        rows = [f"{self._n_observations:,} observations{groups}", self._shares, *shown.rows[1:]]
        return replace(shown, rows=rows, notes=notes, end=end)

    def _parameters(self) -> tuple[list[str], FloatArray, list[int]]:
        names, draws, _ = super()._parameters()
        D, first = len(self.coreset.feature_names), len(self.categories) - 1
        named, values = self._named(names[:D], draws[..., :D])
        return [*named, *names[D:]], np.concatenate([values, draws[..., D:]], axis=2), list(range(first, D))

    def _named(self, names: Sequence[str], draws: FloatArray) -> tuple[list[str], FloatArray]:
        """Return thresholds and then the other coefficients, given those of the steps, shape (..., D)."""
        between = threshold_names(self.categories)
        thresholds = [f"threshold[{name}]" for name in between]
        taken = [names.index(name) for name in ("Intercept", *(f"{STEP}[{name}]" for name in between[1:]))]
        rest = [d for d in range(len(names)) if d not in taken]
        first = -draws[..., taken[:1]]
        made = np.concatenate([first, first - draws[..., taken[1:]], draws[..., rest]], axis=-1)
        return [*thresholds, *(names[d] for d in rest)], made

    def _check_rows(self, table: Any, offset: Any, groups: Any) -> None:
        """Raise as `Fit.predict` does of rows that cannot be used, before each stands once for each threshold."""
        posterior, n_rows = self._posterior(), table.num_rows
        check_columns(self.coreset.design.raw_names, table.column_names)
        design_rows(posterior, first_step(table, self.categories))
        offset_of(posterior, table, n_rows, offset)
        groups_of(posterior, table, n_rows, groups)

    def _tiles(
        self, table: Any, max_draws: int | None, seed: int = 0, offset: Any = None, groups: Any = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield rows of a table, and probabilities of their categories at draws, shape (n, K, S)."""
        posterior, K = self._posterior(), len(self.categories) - 1
        at = None if max_draws is None else posterior.positions(max_draws)
        n_draws, function = len(posterior.flat if at is None else at), partial(_at_draws, at=at, seed=seed)
        size = max(_NUMBERS // (K * n_draws), 1)
        for start in range(0, max(table.num_rows, 1), size):
            part = slice(start, start + size)
            beside = (_repeated(offset, part, K), _repeated(groups, part, K))
            p = map_new_rows(posterior, every_step(table.slice(start, size), self.categories), function, *beside)
            yield part, by_category(p.reshape(len(p) // K, K, n_draws))

    def _log_likelihoods(self) -> Iterator[FloatArray]:
        """Yield the log probability of the categories of all rows of the fit at draws, shape (n, S), part by part."""
        steps: Steps = self._rows_of_data.data
        for table in steps.tables():
            code = steps.coded(table.column(steps.response))
            for part, p in self._tiles(table, _DRAWS) if len(code) else ():
                yield np.log(np.maximum(p[np.arange(len(p)), code[part]], _TINY))


_REFUSED = {
    "icc": "fit.steps.icc() is that of the steps",
    "inference_data": "fit.idata has the draws, fit.predict(rows, kind='response') replicates, fit.loo() densities",
    "all_rows_posterior": "fit.steps.all_rows_posterior() has the steps, whose intercept is minus the first threshold",
    "plot_shrinkage": "fit.plot_effects() draws the effects, and fit.steps.plot_shrinkage() by steps",
    "prior_sensitivity": "fit.steps.prior_sensitivity() has the steps, whose intercept is minus the first threshold",
    "prior_predictive": "fit.steps.prior_predictive() has replicated steps",
}


def _refusal(name: str, remedy: str) -> Callable[..., Any]:
    def refused(self: OrderedFit, *_: Any, **__: Any) -> Any:
        raise DataError(f"{name} is not there for ordered categories ({self._family_asked}): {remedy}")

    refused.__name__, refused.__doc__ = name, f"Raise `DataError`: {remedy}."
    return refused


for _name, _remedy in _REFUSED.items():
    setattr(OrderedFit, _name, _refusal(_name, _remedy))


def _table(data: Any) -> Any:
    """Return rows in memory as a table; an array's columns are x0, x1, ..."""
    if is_table(data):
        return views_as_text(as_table(data))
    check_not_read(data)
    return as_rows(np.asarray(data))[0]


def _repeated(given: Any, part: slice, times: int) -> Any:
    """Return what some rows have, given as an array or as several by name, once for each of a row's steps."""
    if isinstance(given, Mapping):
        return {name: _repeated(each, part, times) for name, each in given.items()}
    return given if given is None or isinstance(given, str) else np.repeat(np.asarray(given)[part], times)


def _at_draws(
    predictor: Predictor, family: Family, rows: WeightedData, new: IntArray | None, *, at: IntArray | None, seed: int
) -> FloatArray:
    return probabilities(predictor if at is None else predictor.take(at), family, rows, new, seed)
