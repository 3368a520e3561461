r"""The parts of a `Fit`, and what all its answers begin and end with.

Rows of a fit: all of them for averages; for checks and pictures `MAX_ROWS` of them, or those that a user gives.

The rows are drawn without replacement by a hash of their places, so that they are the same whatever the source.

Draws of all parameters but groups' effects in units of the data's own columns, and tables of them.

Where effects of a column vary by group and columns are standardised, the effects of the intercept are at the columns'
means. In units of the data they are at 0:

.. math:: u^c_j = u_j / s_j, \qquad u^c_1 = u_1 - \sum_j u_j m_j / s_j, \qquad S^c = A S A'

for column j of mean m_j and sd s_j, S the covariance of the effects, A the matrix of the linear map.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.formula_design import formula_of
from bayescore.data.responses import numbers_of, response_of, two_rows_each, with_response
from bayescore.data.tables import feature_matrix
from bayescore.diagnostics.averages import AveragedRows, added_columns, added_groupings
from bayescore.diagnostics.elpd import sampled_counts
from bayescore.diagnostics.results import Level
from bayescore.fitting.earlier import EarlierRows
from bayescore.fitting.pull import Pull, pull_of
from bayescore.fitting.route import FitOptions, Given, Step, check_same_rows
from bayescore.models.predictor import Factor
from bayescore.numerics.chains import ess, rhat, row_quantiles
from bayescore.numerics.sampling import merge, uniform_rows
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import GroupPrior
from bayescore.report.certify import Certificate
from bayescore.samplers.groups import group_prior_of
from bayescore.samplers.posterior import Posterior, fewer_draws, in_data_units, read_posterior
from bayescore.samplers.predict import factor_levels, groups_of, offset_of, positive_rows
from bayescore.tables import Table
from bayescore.text import listed, number
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_positive


def parameters(posterior: Posterior) -> tuple[list[str], FloatArray]:
    """Return names and draws, shape (chain, draw, K), of coefficients, sds and correlations of effects, and noise."""
    design, chains = posterior.design, posterior.draws.shape[:2]
    assert design is not None
    names, draws = list(posterior.features), [np.asarray(design.raw_coefficients(posterior.draws))]
    for own in design.groups if posterior.terms else ():
        covariance, A = Factor.of(own, posterior.variables).covariance, design.raw_effects_map(own)
        assert covariance is not None
        raw = A @ covariance @ A.T
        sd = np.sqrt(np.einsum("sqq->sq", raw))
        i, j = own.pairs
        rho = raw[:, i, j] / (sd[:, i] * sd[:, j])
        names += own.parameters
        draws += [each.reshape(*chains, -1) for each in (sd, rho)]
    if posterior.sd is not None:
        names.append("sigma")
        draws.append(posterior.sd.reshape(*chains, 1))
    return names, np.concatenate(draws, axis=2)


def interval_names(prob: float) -> tuple[str, str, float]:
    """Return the names of an equal-tailed interval's ends, and the probability of either tail."""
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    return f"{100.0 * tail:g}%", f"{100.0 * (1.0 - tail):g}%", tail


def described(draws: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of draws, shape (K, S), by name, shape (K,) each."""
    low, high, tail = interval_names(prob)
    ends = row_quantiles(draws, np.array([tail, 1.0 - tail]))
    mean = draws.mean(axis=1)
    rest = draws - mean[:, None]
    sd = np.sqrt(np.vecdot(rest, rest) / (draws.shape[1] - 1))
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def table(names: list[str], draws: FloatArray, prob: float) -> pd.DataFrame:
    """Return mean, sd, interval, effective sample sizes and R-hat of draws, shape (chain, draw, K)."""
    found = described(draws.reshape(-1, draws.shape[2]).T, prob)
    chains = {"ess_bulk": ess(draws, "bulk"), "ess_tail": ess(draws, "tail"), "r_hat": rhat(draws)}
    return pd.DataFrame({**found, **chains}, index=pd.Index(names, name="parameter"))


@dataclass(frozen=True, eq=False, repr=False)
class FitParts:
    """The fields of `Fit`.

    Parameters
    ----------
    coreset, certificate, story, prior
        As of `Fit`.
    _drawn : InferenceData
        The coreset's posterior as it was drawn; `idata` has what is to be used.
    _seed : int
        Seed that repeats the fit.
    _max_seconds : float
        As given to `fit`.
    _given : Given, optional
        The rows and the roles of their columns; None of a fit of a coreset that misses a part of them, or that was read
        from files, or updated without all rows.
    _kept : tuple of EarlierRows
        Sums over the rows and a sample of up to 20,000 of them, by which updates do without the rows. Each update adds
        those of its rows. A coreset that lost nothing needs none.
    _robust : InferenceData, optional
        Draws with cluster-robust spread, of `cluster_robust`.
    _options : FitOptions
        Draws, chains, sampler, method and size as given to `fit`; `with_prior` takes them again, `update` the first
        three.
    """

    coreset: Coreset
    _drawn: Any
    certificate: Certificate
    story: tuple[Step, ...]
    prior: Prior | Mapping[str, Prior] | None = None
    _seed: int = 0
    _max_seconds: float = 600.0
    _given: Given | None = None
    _kept: tuple[EarlierRows, ...] = ()
    _robust: Any = None
    _options: FitOptions = field(default_factory=FitOptions)

    @property
    def _rows_given(self) -> Given:
        """The rows and their roles; those of a coreset that lost nothing are its own."""
        self._check_one_table()
        return Given(self.coreset) if self._given is None and self.coreset.lossless else self._rows_of_data

    @property
    def _rows_of_data(self) -> Given:
        """The rows as they were given, with their roles; those given again are checked once."""
        self._check_one_table()
        if self._given is not None:
            self._check_rows()
            return self._given
        raise DataError(
            "the fit was made of a coreset, read from files, or updated, and does not have all its rows: give them "
            "to the fit, read_fit(folder, data) or fit.update(data=rows), or to an answer that takes data=rows"
        )

    @property
    def _is_pooled(self) -> bool:
        """Whether the draws are of several imputed tables."""
        return self.spread.startswith("pooled")

    def _check_one_table(self) -> None:
        if self._is_pooled:
            raise DataError(
                f"the draws are {self.spread}, and not of one: give rows to an answer that takes data=rows, such as "
                "all tables below each other, or fit one table"
            )

    def _check_rows(self) -> None:
        """Raise if rows were given again and are not those of the fit; one pass, until they were found the same."""
        if self._given is not None:
            self._check_one_table()
        given = self._given
        if given is None or given.known:
            return
        point = self._posterior().flat.mean(axis=0)
        check_same_rows(given, self.coreset, self.certificate.effects, point, updated=self._updated)
        object.__setattr__(given, "known", True)

    @property
    def _updated(self) -> bool:
        """Whether samples of earlier rows stand for them in the certificate."""
        return len(self._kept) > 1

    @property
    def level(self) -> str:
        """The verdict: "certified", "corrected" or "not certified"."""
        return str(self.certificate.level)

    @cached_property
    def idata(self) -> Any:
        """The draws to use, as InferenceData whose `posterior` is in units of the data's own columns.

        `coef` has each coefficient once; sds, correlations and effects of groups follow. What was sampled, `beta` of
        the columns as the model has them, is the group `design_posterior`, by which `certify` and others go.
        """
        return in_data_units(self._used, self.coreset.design)

    @property
    def _used(self) -> Any:
        """The draws to use, as sampled: cluster-robust or else corrected ones, or those drawn where there are none.

        Where all draws are certified as they are, and only some of them were weighed and corrected, all are used.
        """
        if self._robust is not None:
            return self._robust
        corrected = self.certificate.idata
        if corrected is None or (self.level == Level.CERTIFIED and fewer_draws(corrected, self._drawn)):
            return self._drawn
        return corrected

    @cached_property
    def _pull(self) -> Pull | None:
        """What the prior moves, where it costs more than 2 nats of log likelihood; None else."""
        return pull_of(self._drawn, self.coreset)

    @property
    def _sampled_prior(self) -> Prior | None:
        """The prior of the coefficients of the design's columns; None if the draws are of a model of your own."""
        story = read_posterior(self._drawn, "the fit's draws").story
        return prior_from_dict(story["prior"]) if story else None

    @property
    def _design_prior(self) -> Prior:
        """The same prior; raise if there is none."""
        return self._known_prior(": give prior=")

    def _known_prior(self, remedy: str) -> Prior:
        """Return the same prior; raise with a remedy if there is none."""
        if (prior := self._sampled_prior) is None:
            raise DataError(f"the draws are of a model of your own, whose prior the fit does not know{remedy}")
        return prior

    @property
    def group_prior(self) -> GroupPrior | None:
        """The prior of the sds of groups' effects; None without groups, and of a model of your own."""
        return group_prior_of(self._drawn.posterior.attrs)

    @property
    def spread(self) -> str:
        """Whose spread the draws have, as "cluster-robust by 60 clusters of 'district'"; empty if the model's own."""
        return "" if self._robust is None else str(self._robust.posterior.attrs["spread"])

    @property
    def formula(self) -> str | None:
        """The formula, if the fit has one."""
        return formula_of(self.coreset.design)

    def _posterior(self) -> Posterior:
        """Return the draws to use as arrays."""
        return read_posterior(self._used, "fit.idata")

    @property
    def _about(self) -> dict[str, str]:
        """Return what every answer of the fit's draws says about them."""
        return {"level": self.level, **({"spread": self.spread} if self.spread else {})}

    @property
    def _heading(self) -> str:
        """Return the same in few words."""
        if not self.spread:
            return self.level
        short, clusters, _ = self.spread.partition(" clusters")
        return f"{self.level}, {short}{clusters}"

    def _labelled(self, frame: pd.DataFrame, level: str = "") -> Table:
        """Return a table with the level of its draws, by default the fit's, in its attributes."""
        found = Table(frame)
        found.attrs.update({"level": level} if level else self._about)
        return found

    def _check_model_spread(self, what: str, otherwise: str = "") -> None:
        """Raise if the draws are not those of the model's own posterior, which an answer is of; name another way."""
        if self._is_pooled:
            raise DataError(
                f"{what} is of the posterior of one table, and these draws are {self.spread}; fit one table"
            )
        if self.spread:
            raise DataError(
                f"{what} is of the model's own posterior, and the spread of these draws is {self.spread}; ask "
                f"fit.cluster_robust(None), which has the model's own spread{otherwise}"
            )


MAX_ROWS = 20_000
"""Rows that stand for all: a share among them is known to 0.004."""


SAMPLE_SEED = 7041  # of the sample


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows with X in the data's own columns, text as codes; `n_total` is how many they stand for."""

    rows: WeightedData
    design: Design
    n_total: int
    events: FloatArray | None = None  # of counts, where known; weights are then exposures. Of numbers the responses
    labels: Mapping[str, list[Any]] = field(default_factory=dict)  # of the parts of the rows, by columns
    parts: IntArray | None = None  # places among these, shape (n,)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> FloatArray:
        """Return a raw column, shape (n,); of text the places of its levels."""
        return self.rows.X[:, self._place(name)]

    def designed(self, raw: FloatArray | None = None) -> WeightedData:
        """Return the rows in the design."""
        return replace(self.rows, X=self.design.transform(self.rows.X if raw is None else raw))

    def sides(self) -> WeightedData:
        """Return the rows in the design, of counts both sides of each, of numbers with these."""
        rows = self.designed()
        if self.events is None:
            return rows
        if response_of(self.design.classes) == "numbers":
            return with_response(rows, self.events)
        return two_rows_each(rows.with_weights(np.ones(len(rows))), np.stack([self.events, rows.weights]))

    def levels(self, name: str) -> tuple[list[Any], IntArray] | None:
        """Return the levels of a factor and each row's place among them; None of a column of numbers."""
        column = self.column(name)
        known = factor_levels(self.design, name)
        if not known:
            return None
        if name in dict(self.design.raw_levels):
            return list(known), np.rint(column).astype(np.int64)
        return list(known), np.searchsorted(np.asarray(known, dtype=np.float64), column).astype(np.int64)

    def _place(self, name: str) -> int:
        if name not in self.design.raw_names:
            if name in [own.name for own in self.design.groups]:
                raise DataError(
                    f"{name!r} is a grouping factor: fit.effects({name!r}) has its effects and their intervals"
                )
            known = listed(self.design.raw_names, 10)
            raise DataError(
                f"{name!r} is no column that the fit knows; {f'they are {known}' if known else 'it has none'}"
            )
        return self.design.raw_names.index(name)


def raw_rows(fit: FitParts, data: Any, *, others: bool = False, by: tuple[str, ...] = ()) -> RawRows:
    """Return rows that are given, each of weight 1, or a sample of all rows of the fit, or of others, in parts."""
    design = fit.coreset.design
    if data is None:
        found = _sample(fit._rows_given, fit, by)
        if not (others or fit.coreset.counts) and found.n_total != fit.coreset.n_total:
            raise DataError(
                f"the rows are {found.n_total:,}, and the fit was made of {fit.coreset.n_total:,}: give the same rows"
            )
        return found
    raw = feature_matrix(data, design.raw_names, design.raw_levels)
    if not len(raw):
        raise DataError("data has no rows, so there is no average; give at least one")
    posterior = fit._posterior()
    beside = offset_of(posterior, data, len(raw), None), groups_of(posterior, data, len(raw), None)
    return RawRows(positive_rows(raw, *beside), design, len(raw))


def rows_of_fit(fit: FitParts, by: tuple[str, ...] = ()) -> AveragedRows:
    """Return all rows that a fit was made of, with codes of columns `by` that the model does not have."""
    return _opened(fit._rows_given, fit, by)


def _opened(given: Given, fit: FitParts, by: tuple[str, ...] = ()) -> AveragedRows:
    if given.once:
        raise DataError("the rows came once and are gone; give data, rows to average over")
    own = given.data
    if isinstance(own, Coreset) and own.numbers and own.pseudo.any():
        raise DataError(
            "the fit has sums of its rows alone, pseudo-rows, and not the rows' columns; give rows as "
            "data, data=rows, or the fit all of them, fit.update(data=rows)"
        )
    design = fit.coreset.design
    added = added_columns(design, own, by)
    found = given.rows(fit.coreset, **({"parts": added} if added else {}))
    rows = Dataset(found.rows, progress=given.progressbar)
    return AveragedRows(fit._posterior(), rows, found.rows.design == design, added_groupings(found, design))


def _sample(given: Given, fit: FitParts, by: tuple[str, ...]) -> RawRows:
    opened, design = _opened(given, fit, by), fit.coreset.design
    if opened.designed and not design.is_identity:
        raise DataError("the rows are those of a coreset, which do not tell the data's columns; give data, raw rows")
    labels, cells = opened.parts(by) if by else ({}, None)

    def parted(rows: WeightedData, n_total: int, y: FloatArray | None = None) -> RawRows:
        if cells is None:
            return RawRows(rows, design, n_total, y)
        return RawRows(cells.modelled(rows), design, n_total, y, labels, cells.parts(rows))

    if fit.coreset.counts:
        found = sampled_counts(opened.dataset, fit._posterior().family, MAX_ROWS, SAMPLE_SEED)
        return parted(found.responses.rows, found.n_rows, found.responses.events)
    one = partial(uniform_rows, size=MAX_ROWS, seed=SAMPLE_SEED)
    drawn = merge(list(opened.dataset.map(one, "drawing rows", canonical=True)), MAX_ROWS)
    if fit.coreset.numbers:
        rows, y = numbers_of(drawn.rows)
        return parted(rows, drawn.total, y)
    return parted(drawn.rows, drawn.total)


def data_facts(core: Coreset) -> dict[str, str]:
    """Return what the rows of a coreset's data are, in words by label; empty where an older file does not say."""
    n, events, weight = core.n_observations, core.event_total, core.weight_total
    if n is None or events is None:
        return {}
    found = {"Observations": f"{n:,}"}
    if core.counts:
        exposure, rate = weight - events, "Mean count"
        found |= {"Response": f"{core.label}: counts", "Events": f"{events:,.6g}"}
        if core.design.exposure is not None or core.design.weighted:
            found["Exposure"], rate = f"{exposure:,.6g}", "Rate"
        return {**found, rate: number(events / exposure)}
    if core.numbers:
        rows, y = numbers_of(core)
        mean = float(np.average(y, weights=rows.weights))
        sd = math.sqrt(np.average((y - mean) ** 2, weights=rows.weights))
        return {**found, "Response": f"{core.label}: numbers, mean {number(mean)}, sd {number(sd)}"}
    if not np.isclose(weight, n, rtol=1e-9):
        found["Total weight" if n == core.n_total else "Trials"] = f"{weight:,.6g}"
    other, one = core.classes
    share = number(100.0 * events / weight)
    return {**found, "Response": f"{core.label}: {one} against {other}", f"Share of {one}": f"{share}%"}
