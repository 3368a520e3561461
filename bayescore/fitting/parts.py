r"""What answers of a fit begin and end with: draws in units of the data, rows of the fit, levels on tables.

Rows of a fit: all of them for averages; for checks and pictures `MAX_ROWS` of them, or those that a user gives.

The rows are drawn without replacement by a hash of their places, so that they are the same whatever the source.

Draws of all parameters but groups' effects in units of the data's own columns, and tables of them.

Where effects of a column vary by group and columns are standardised, the effects of the intercept are at the columns'
means. In units of the data they are at 0:

.. math:: u^c_j = u_j / s_j, \qquad u^c_1 = u_1 - \sum_j u_j m_j / s_j, \qquad S^c = A S A'

for column j of mean m_j and sd s_j, S the covariance of the effects, A the matrix of the linear map.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.responses import numbers_of, without_response
from bayescore.data.tables import feature_matrix
from bayescore.diagnostics.averages import AveragedRows, added_columns, added_groupings, refuse_grouping_factor
from bayescore.diagnostics.elpd import sampled_counts
from bayescore.numerics.chains import ess, rhat, row_quantiles
from bayescore.numerics.sampling import Draw, merge, uniform_rows
from bayescore.priors import Prior
from bayescore.samplers.posterior import Posterior, raw_scales
from bayescore.samplers.predict import factor_levels, groups_of, offset_of, positive_rows
from bayescore.tables import Table
from bayescore.text import listed
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_positive

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

MAX_ROWS = 20_000
"""Rows that stand for all: a share among them is known to 0.004."""

SAMPLE_SEED = 7041  # of the sample


def parameters(posterior: Posterior) -> tuple[list[str], FloatArray]:
    """Return names and draws, shape (chain, draw, K), of coefficients, sds and correlations of effects, and noise."""
    design, chains = posterior.design, posterior.draws.shape[:2]
    assert design is not None
    names, draws = list(posterior.features), [np.asarray(design.raw_coefficients(posterior.draws))]
    for grouping in design.groups if posterior.terms else ():
        scales = raw_scales(grouping, design.raw_effects_map(grouping), posterior.variables)
        names += grouping.parameters
        draws += [each.reshape(*chains, -1) for each in scales]
    for name in (f"sigma_{term}" for term in design.smooths):
        if name in posterior.variables:
            names.append(name)
            draws.append(posterior.variables[name].reshape(*chains, 1))
    for name, values in posterior.numbers.items():
        names.append(name)
        draws.append(values.reshape(*chains, 1))
    return names, np.concatenate(draws, axis=2)


def interval_names(prob: float) -> tuple[str, str, float]:
    """Return the names of an equal-tailed interval's ends, and the probability of either tail."""
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    return f"{100.0 * tail:g}%", f"{100.0 * (1.0 - tail):g}%", tail


def summarise(draws: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of draws, shape (K, S), by name, shape (K,) each."""
    low, high, tail = interval_names(prob)
    ends = row_quantiles(draws, np.array([tail, 1.0 - tail]))
    mean = draws.mean(axis=1)
    rest = draws - mean[:, None]
    sd = np.sqrt(np.vecdot(rest, rest) / (draws.shape[1] - 1))
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def table(names: list[str], draws: FloatArray, prob: float) -> pd.DataFrame:
    """Return mean, sd, interval, effective sample sizes and R-hat of draws, shape (chain, draw, K)."""
    figures = summarise(draws.reshape(-1, draws.shape[2]).T, prob)
    chains = {"ess_bulk": ess(draws, "bulk"), "ess_tail": ess(draws, "tail"), "r_hat": rhat(draws)}
    return pd.DataFrame({**figures, **chains}, index=pd.Index(names, name="parameter"))


def draws_attrs(fit: "Fit") -> dict[str, str]:
    """Return the attributes of every answer: level and spread of the draws."""
    return {"level": fit.level, **({"spread": fit.spread} if fit.spread else {})}


def heading(fit: "Fit") -> str:
    """Return the level and the spread in few words."""
    if not fit.spread:
        return fit.level
    short, clusters, _ = fit.spread.partition(" clusters")
    return f"{fit.level}, {short}{clusters}"


def numbers_of_model(fit: "Fit") -> str:
    """Return the end of a sentence about the spread: which parameters keep the model's own."""
    numbers = () if fit._is_pooled else tuple(fit._posterior().numbers)
    if not numbers:
        return ""
    return f"; {' and '.join(numbers)} {'keeps' if len(numbers) == 1 else 'keep'} the model's"


def labelled(fit: "Fit", frame: pd.DataFrame, level: str = "") -> Table:
    """Return a table with the level of its draws, by default the fit's, in its attributes."""
    table = Table(frame)
    table.attrs.update({"level": level} if level else draws_attrs(fit))
    return table


def check_model_spread(fit: "Fit", what: str, otherwise: str = "") -> None:
    """Raise if the draws are not those of the model's own posterior, which an answer is of; name another way."""
    if fit._is_pooled:
        raise DataError(f"{what} is of the posterior of one table, and these draws are {fit.spread}; fit one table")
    if fit.spread:
        raise DataError(
            f"{what} is of the model's own posterior, and the spread of these draws is {fit.spread}; ask "
            f"fit.cluster_robust(None), which has the model's own spread{otherwise}"
        )


def known_prior(fit: "Fit", remedy: str) -> Prior:
    """Return the prior of the coefficients of the design's columns; raise with a remedy if it is a user's own model."""
    if (prior := fit._sampled_prior) is None:
        raise DataError(f"the draws are of a model of your own, whose prior the fit does not know{remedy}")
    return prior


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows with X in the data's own columns, text as codes; `n_total` is how many they stand for."""

    rows: WeightedData
    design: Design
    n_total: int
    events: FloatArray | None = None  # of counts, where known; weights are then exposures. Of numbers the responses
    labels: Mapping[str, list[Any]] = field(default_factory=dict)  # of the parts of the rows, by columns
    parts: IntArray | None = None  # places among these, shape (n,)
    log_times: FloatArray | None = None  # of times at risk, which `rows` are without

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> FloatArray:
        """Return a raw column, shape (n,); of text the places of its levels."""
        return self.rows.X[:, self._place(name)]

    def designed(self, raw: FloatArray | None = None) -> WeightedData:
        """Return the rows in the design."""
        return replace(self.rows, X=self.design.transform(self.rows.X if raw is None else raw))

    def observed(self) -> WeightedData:
        """Return the rows in the design; log times at risk are their offsets."""
        rows = self.designed()
        return rows if self.log_times is None else replace(rows, offset=-self.log_times)

    def levels(self, name: str) -> tuple[list[Any], IntArray] | None:
        """Return the levels of a factor and each row's place among them; None of a column of numbers."""
        column = self.column(name)
        levels = factor_levels(self.design, name)
        if not levels:
            return None
        if name in dict(self.design.raw_levels):
            return list(levels), np.rint(column).astype(np.int64)
        return list(levels), np.searchsorted(np.asarray(levels, dtype=np.float64), column).astype(np.int64)

    def _place(self, name: str) -> int:
        if name not in self.design.raw_names:
            refuse_grouping_factor(self.design, name, repr(name))
            columns = listed(self.design.raw_names, 10)
            raise DataError(
                f"{name!r} is no column that the fit knows; {f'they are {columns}' if columns else 'it has none'}"
            )
        return self.design.raw_names.index(name)


def raw_rows(fit: "Fit", data: Any, *, others: bool = False, by: tuple[str, ...] = ()) -> RawRows:
    """Return rows that are given, each of weight 1, or a sample of all rows of the fit, or of others, in parts."""
    design = fit.coreset.design
    if data is None:
        sample = _sample(fit, by)
        if not (others or fit.coreset.counts) and sample.n_total != fit.coreset.n_total:
            raise DataError(
                f"the rows are {sample.n_total:,}, and the fit was made of {fit.coreset.n_total:,}: give the same rows"
            )
        return sample
    raw = feature_matrix(data, design.raw_names, design.raw_levels)
    if not len(raw):
        raise DataError("data has no rows, so there is no average; give at least one")
    posterior = fit._posterior()
    beside = offset_of(posterior, data, len(raw), None), groups_of(posterior, data, len(raw), None)
    return RawRows(positive_rows(raw, *beside), design, len(raw))


def rows_of_fit(fit: "Fit", by: tuple[str, ...] = ()) -> AveragedRows:
    """Return all rows that a fit was made of, with codes of columns `by` that the model does not have."""
    given = fit._rows_given
    if given.once:
        raise DataError("the rows came once and are gone; give data, rows to average over")
    data = given.data
    if isinstance(data, Coreset) and data.numbers and data.pseudo.any():
        raise DataError(
            "the fit has sums of its rows alone, pseudo-rows, and not the rows' columns; give rows as "
            "data, data=rows, or the fit all of them, fit.update(data=rows)"
        )
    design = fit.coreset.design
    added = added_columns(design, data, by)
    opened = given.rows(fit.coreset, **({"parts": added} if added else {}))
    rows = Dataset(opened.rows, progress=given.progressbar)
    return AveragedRows(fit._posterior(), rows, opened.rows.design == design, added_groupings(opened, design))


def drawn_rows(dataset: Dataset) -> Draw:
    """Return up to 20,000 rows drawn without replacement; one pass."""
    one = partial(uniform_rows, size=MAX_ROWS, seed=SAMPLE_SEED)
    return merge(list(dataset.map(one, "drawing rows", canonical=True)), MAX_ROWS)


def _sample(fit: "Fit", by: tuple[str, ...]) -> RawRows:
    opened, design = rows_of_fit(fit, by), fit.coreset.design
    if opened.designed and not design.is_identity:
        raise DataError("the rows are those of a coreset, which do not tell the data's columns; give data, raw rows")
    labels, cells = opened.parts(by) if by else ({}, None)

    def parted(rows: WeightedData, n_total: int, y: FloatArray | None = None) -> RawRows:
        if cells is None:
            return RawRows(rows, design, n_total, y)
        return RawRows(cells.with_model_groups(rows), design, n_total, y, labels, cells.parts(rows))

    if fit.coreset.counts:
        counts = sampled_counts(opened.dataset, fit._posterior().family, MAX_ROWS, SAMPLE_SEED)
        rows = counts.responses.rows
        sample = parted(without_response(rows, fit.coreset.response), counts.n_rows, counts.responses.events)
        return replace(sample, log_times=None if rows.offset is None else -rows.offset) if fit.coreset.times else sample
    drawn = drawn_rows(opened.dataset)
    if fit.coreset.numbers:
        rows, y = numbers_of(drawn.rows)
        return parted(rows, drawn.total, y)
    return parted(drawn.rows, drawn.total)
