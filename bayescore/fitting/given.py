r"""What `fit` was given: rows and the roles of their columns, remembered so that later questions need none.

Priors in units of the data's own columns, and the default one, for design matrices with standardised columns.

`fit` standardises the columns of models with an intercept. The default prior is Normal(0, 2.5) on every coefficient of
the standardised columns, that is

.. math:: c_d \sim N(0, (2.5 / \mathrm{sd}(x_d))^2), \qquad \alpha \sim N(0, 2.5^2),

c_d the coefficient of a raw column, sd(x) the weighted population sd over all rows, \alpha the intercept where all
columns are at their means. These are rstanarm's default priors for ``binomial(link = "logit")``; those of numbers with
normal noise are in units of y (`priors.defaults`). A prior that is given
is on c_d and \alpha too, so that "Intercept" means the same as in rstanarm and brms.

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).

Whether rows that a fit is given again are those that it was made of, by sums over them in one pass.

The coreset knows their number and their weight. Without groups, and of sums of all rows, it also knows their score at
one point, the gradient of their log-likelihood: its own rows' score with the shortfall that the build left. It is
compared in units of the roots of the curvatures there,

.. math:: |g_d - g'_d| / \sqrt{F_{dd}},

by so many sds the mode moves along a coefficient, the others known. The limit is 0.01: rounding, as of another type of
storage, makes less of it. Pseudo-rows without a shortfall, and coresets united since, know the score to second order,
and the limit is 0.5; opposite labels of n rows make about the root of n. With groups the certificate knows the weights
of the two labels by group.

Coresets of other methods, and groups of a fit that was updated, are held against number and weight alone.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayescore.coresets.build import all_rows, build_coreset
from bayescore.data.blocks import is_stream
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.formula_design import formula_of
from bayescore.data.formula_parsing import parsed
from bayescore.data.open import open_designed
from bayescore.data.source import Source
from bayescore.data.sources import has_named_columns
from bayescore.data.tables import is_table
from bayescore.diagnostics.row_sums import full_rows
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.rows import label_weights
from bayescore.models.laplace import missed_terms
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.priors import Independent, Normal, Prior
from bayescore.priors.by_name import ByName, leaves_out, prior_of
from bayescore.priors.defaults import DEFAULT_SCALE
from bayescore.priors.groups import check_group_prior
from bayescore.priors.prior import check_prior
from bayescore.report.certify import Certificate, certify
from bayescore.text import number
from bayescore.types import INTERCEPT, FloatArray, WeightedData
from bayescore.validation import DataError, check_alone


@dataclass(frozen=True, eq=False)
class Given:
    """Rows, labels and roles, as `build_coreset` takes them."""

    data: Any
    y: Any = None
    formula: str | None = None
    intercept: bool = True  # of data without a formula
    positive: Any = None
    roles: Mapping[str, Any] = field(default_factory=dict)  # label, weights, offset, trials, exposure, ...
    progressbar: bool = False
    known: bool = True  # to be the rows of the fit

    @property
    def once(self) -> bool:
        """Whether the rows can be read once only, or are gone: those that a coreset misses a part of."""
        return is_stream(self.data) or self.lossy

    @property
    def lossy(self) -> bool:
        """Whether there is no more of the rows than a coreset that misses a part of them."""
        return isinstance(self.data, Coreset) and not self.data.lossless

    @property
    def whole(self) -> bool:
        """Whether these are all rows of the fit."""
        return True

    @property
    def has_intercept(self) -> bool:
        """Whether the model has an intercept."""
        if isinstance(self.data, Coreset):
            return self.data.design.constant is not None
        if self.formula is None:
            return self.intercept
        return any(str(term) == "1" for term in parsed(self.formula).terms)

    @property
    def standardize(self) -> bool:
        """Whether columns are standardised: intercepts take up their means, and the rows can be read again."""
        groups = () if self.formula is None else parsed(self.formula).groups
        if not all("1" in term.effects for term in groups):
            return False
        return self.has_intercept and not self.once and not isinstance(self.data, Coreset)

    def build(self, **options: Any) -> Coreset:
        """Return a coreset; one that is given in place of rows stays as it is."""
        if isinstance(self.data, Coreset) and self.lossy:
            return self.data
        return build_coreset(self.data, self.y, **self.told(), positive=self.positive, **self._design(), **options)

    def everything(self, family: str) -> Coreset:
        """Return all rows, in memory."""
        if isinstance(self.data, Coreset):
            return self.data
        return all_rows(self.data, self.y, **self.told(), positive=self.positive, **self._design(), family=family)

    def certify(self, idata: Any, core: Coreset, max_draws: int, model: Any = None) -> Certificate:
        """Return the certificate of draws of a coreset; a lossless one is held against itself."""
        own = {"model": model, "max_draws": max_draws}
        labels = core.response == "labels"  # of others only rows of the data tell elpd and dispersion
        if core.lossless and (self.once or labels):
            return certify(idata, core, core, progressbar=self.progressbar, **own)
        return certify(idata, core, self.data, self.y, **self.told(), **own)

    @property
    def gone(self) -> str:
        """Why no draws can be held against the rows, and what is known of their error."""
        if not isinstance(self.data, Coreset):
            return (
                "The rows came once, so that no draws can be held against them; give a callable that returns a fresh "
                "iterator of blocks each time, or a file."
            )
        params, own = self.data.params, "It has no estimate of its error"
        if "mean_error" in params:
            mean, sd = params["mean_error"], params["sd_error"]
            own = f"By its own estimate means are off by about {mean:.2g} sd, and sds by {100.0 * sd:.2g}%"
        elif "moved" in params:
            own = (
                f"The posterior moved by {params['moved']:.2g} sds after earlier rows were condensed (limit "
                f"{params['moved_limit']:.2g}), and means are off to second order in that"
            )
        return (
            f"The rows are a coreset of the method {self.data.method!r}, which misses a part of the data. {own}. No "
            "draws can be held against the data without them: fit.update(data=rows) certifies."
        )

    def check_group_prior(self, prior: Any) -> None:
        """Raise if it is no prior of sds of effects, or there can be no groups."""
        if prior is None:
            return
        check_group_prior(prior)
        if self.formula is not None:
            grouped = bool(parsed(self.formula).groups)
        elif isinstance(self.data, WeightedData):
            grouped = self.data.group is not None
        else:  # blocks may bring groups of their own
            grouped = self.once or callable(self.data) or isinstance(self.data, Source)
        if not grouped and self.roles.get("groups") is None:
            raise DataError(
                f"group_prior={prior} is for effects of groups, and the model has none; give a term (1 | g), or leave "
                "it out"
            )

    def check_lossy(self, family: str | None, prior: Any) -> None:
        """Raise if arguments do not go with a coreset that misses a part of its rows."""
        if not (isinstance(self.data, Coreset) and self.lossy):
            return
        core = self.data
        check_alone("a coreset", **self.roles, positive=self.positive)
        if family not in (None, core.family):
            raise DataError(
                f"family={family!r} is given, and the coreset was built for {core.family!r}; leave it out, or build "
                "another from the rows"
            )
        if isinstance(prior, Mapping):
            prior_of(prior, core.feature_names)
        if leaves_out(prior) and core.pseudo.any() and core.design.scale is None:
            raise DataError(
                "prior is missing: the default one goes by the sds of columns, which pseudo-rows do not tell; give a "
                'prior, such as prior=bc.priors.Normal(0, 2.5), and by name one of all others, "*"'
            )

    def rows(self, core: Coreset) -> Dataset:
        """Return the rows in the design of a coreset."""
        return full_rows(core, self.data, self.y, progress=self.progressbar, **self.roles)

    def undesigned(self, *, response: str, **beside: Any) -> Dataset:
        """Return the rows in the design of the formula, not standardised."""
        roles = {**self.roles, "response": response, **beside}
        return open_designed(self.data, self.y, formula=self.formula, positive=self.positive, **roles)

    def check_names(self, prior: Mapping[str, Prior], *, response: str) -> None:
        """Raise unless the names of a prior are those of coefficients, before a build reads the rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the build gives them
            names = self.undesigned(response=response).design.names
        added = self.formula is None and self.intercept and not isinstance(self.data, Coreset)
        prior_of(prior, (INTERCEPT, *names) if added else names)

    def told(self) -> dict[str, Any]:
        """Return the roles of columns, as verbs take them."""
        return {**self.roles, "progressbar": self.progressbar}

    def _design(self) -> dict[str, Any]:
        own = {"formula": self.formula, "standardize": self.standardize}
        named = isinstance(self.data, Coreset) or self.formula is not None
        return own if named else {**own, "intercept": self.intercept}


def all_rows_of(core: Coreset, data: Any, roles: dict[str, Any], *, progressbar: bool) -> Given:
    """Return rows, or a pair of rows and labels, with the roles of columns that the coreset remembers."""
    rows, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    formula, design = formula_of(core.design), core.design
    known: dict[str, Any] = design.role_columns if has_named_columns(rows) else {}
    asked = None if formula is None else parsed(formula)
    if known and design.offset is not None and (asked is None or asked.offset is None):
        known["offset"] = design.offset
    if known and design.exposure is not None:
        known["exposure"] = design.exposure
    if asked is not None and asked.trials is not None:
        known.pop("trials", None)
    if known and formula is None and design.groups:
        known["groups"] = [own.name for own in design.groups]
    return rows_like(core, rows, y, roles={**known, **roles}, progressbar=progressbar)


def rows_like(core: Coreset, data: Any, y: Any, **own: Any) -> Given:
    """Return rows that are read as those of a coreset were: by its formula, or with its intercept, and its labels."""
    positive = None if core.counts else core.classes[1]
    return Given(data, y, formula_of(core.design), core.design.constant is not None, positive, **own)


def design_prior(given: Prior | Mapping[str, Prior] | None, design: Design, default: Prior | None = None) -> Prior:
    """Return the prior of the coefficients of a design, given one in units of the data's own columns.

    By default it is `default`, in units of the design, or that of standardised columns. Hierarchies and multivariate
    priors, whose parameters are not one coefficient's, stay as they are: they are on the standardised columns.
    """
    names = design.names
    if given is None:
        return Normal(0.0, DEFAULT_SCALE) if default is None else default
    prior, scales = prior_of(given, names), design.scales
    if not isinstance(prior, Independent):
        return prior
    each = _each(prior, names, scales)
    if isinstance(prior, ByName) and leaves_out(given):
        rest = design_prior(None, design, default)
        for d in prior.unnamed:
            each[d] = rest.of_coefficient(d, names[d], len(names))
    return _together(each, names)


def raw_prior(prior: Prior, design: Design) -> Prior:
    """Return the prior in units of the data's own columns, given that of the design's: `design_prior` backwards."""
    if not isinstance(prior, Independent):
        return prior
    return _together(_each(prior, design.names, 1.0 / design.scales), design.names)


def _each(prior: Prior, names: Sequence[str], scales: FloatArray) -> list[Prior]:
    """Return the prior of each coefficient, which is `scales` times as large."""
    prior.parts(D := len(names))  # shapes
    return [_scaled(prior.of_coefficient(d, name, D), scales[d]) for d, name in enumerate(names)]


def _together(each: list[Prior], names: Sequence[str]) -> Prior:
    if all(type(own) is type(each[0]) for own in each):
        return _joined(each)
    return prior_of(dict(zip(names, each, strict=True)), names)


def _scaled(prior: Prior, scale: float) -> Prior:
    """Return the prior of a coefficient that is `scale` times as large."""
    return prior.replaced(**{name: float(getattr(prior, name) * scale) for name in prior.in_units})


def _joined(each: list[Prior]) -> Prior:
    """Return one prior of coefficients whose priors are of one class: a number where they agree, else a vector."""
    together: dict[str, Any] = {}
    for name in each[0].parameters():
        values = [getattr(own, name) for own in each]
        together[name] = values[0] if len(set(values)) == 1 else tuple(values)
    return each[0].replaced(**together)


def check_priors(prior: Any) -> None:
    """Raise unless `prior` is one: names of coefficients are checked once they are known."""
    if prior is None:
        return
    for name, own in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        try:
            check_prior(own)
        except TypeError as error:
            said = str(error).removeprefix("prior").removeprefix(f"={own!r} ")
            which = f"prior[{name!r}]" if name else "prior"
            raise TypeError(
                f"{which}={own!r} {said}. A flat prior is not among them, as labels that "
                "some column separates would have no posterior; a wide one is prior=bc.priors.Normal(0, 10)"
            ) from None


_EXACT, _NEAR = 0.01, 0.5  # limits of the score, in sds


_SHARE = 1e-6  # of a weight, that rounding may make


_REMEDY = "give the rows that the fit was made of, or leave data out"


class _Sums(NamedTuple):
    """Sums over rows: number, weight, terms of the log-likelihood at a point, and weights by group and label."""

    n_rows: int
    weight: float
    terms: Derivatives | None
    labels: FloatArray | None  # of +1 and of -1, shape (G, 2)


def in_memory(data: Any) -> bool:
    """Whether rows are in this process's memory, so that a pass takes no time to speak of."""
    return is_table(data) or isinstance(data, np.ndarray | list | tuple | WeightedData) or sparse.issparse(data)


def check_same_rows(given: Given, core: Coreset, effects: Any, point: FloatArray, *, updated: bool) -> None:
    """Raise `DataError` unless rows add up to what is known of those of a fit; one pass.

    Parameters
    ----------
    given : Given
        The rows; of those that come once nothing is asked.
    core : Coreset
        The fit's.
    effects : DataFrame
        `CertificateData.effects`.
    point : array, shape (D,)
        The mean of the draws.
    updated : bool
        Whether some rows were not there when the certificate was made.
    """
    if given.once:
        return
    family, own, limit = check_family(core.family), None, _EXACT
    if core.group is None or core.lossless:
        if core.shortfall is not None:
            point = core.shortfall.point
            own = likelihood_terms(point, core, family) + missed_terms(core.shortfall, point)
        elif core.lossless or core.method == "condensed":
            own = likelihood_terms(point, core, family)
        if "parts" in core.params or (core.shortfall is None and not core.lossless):
            limit = _NEAR
    known = None
    if own is None and core.groups and len(effects) and not updated:
        first = core.groups[0]
        table = effects.iloc[: len(first) * len(first.effects) : len(first.effects)]
        ups = (table["weight"] * table["share"].fillna(0.0)).to_numpy(float)
        known = np.stack([ups, table["weight"].to_numpy(float) - ups], axis=1)
    sizes = 0 if known is None else len(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit gave them
        dataset = given.rows(core)
        of_block = partial(_sums, family=family, point=None if own is None else point, n_groups=sizes)
        found = _total(list(dataset.map(of_block, "checking rows", canonical=True)))
    _compare(found, core, own, known, limit)


def _sums(_: int, block: WeightedData, family: Family, point: FloatArray | None, n_groups: int) -> _Sums:
    terms = None if point is None else likelihood_terms(point, block, family)
    labels = None
    if n_groups:
        assert block.group is not None
        labels = label_weights(block, block.group[:, 0], n_groups)
    return _Sums(len(block), float(block.weights.sum()), terms, labels)


def _total(parts: list[_Sums]) -> _Sums:
    first = parts[0]
    terms, labels = first.terms, first.labels
    for own in parts[1:]:
        terms = None if terms is None or own.terms is None else terms + own.terms
        labels = None if labels is None or own.labels is None else labels + own.labels
    return _Sums(sum(own.n_rows for own in parts), math.fsum(own.weight for own in parts), terms, labels)


def _compare(found: _Sums, core: Coreset, own: Derivatives | None, known: FloatArray | None, limit: float) -> None:
    """Raise unless sums are those that are known: `own` terms and weights by label and group where there are any."""
    if found.n_rows != core.n_total:
        raise DataError(f"data has {found.n_rows:,} rows, and the fit was made of {core.n_total:,}: {_REMEDY}")
    if not math.isclose(found.weight, core.weight_total, rel_tol=_SHARE):
        raise DataError(
            f"data has the total weight {found.weight:,.10g}, and the rows of the fit {core.weight_total:,.10g}: "
            f"{_REMEDY}, with their weights"
        )
    if found.labels is not None and known is not None:
        size = max(core.weight_total, 1.0) * _SHARE
        off = np.abs(found.labels - known).max(axis=1)
        if not off.max() <= size:
            grouping, k = core.groups[0], int(off.argmax())
            what = {"labels": f"labels {core.classes[1]!r}", "counts": "events"}.get(core.response, "rows")
            there, then = found.labels[k, 0], known[k, 0]
            if abs(there - then) <= size:
                there, then, what = found.labels[k].sum(), known[k].sum(), "rows"
            raise DataError(
                f"data has {what} of weight {there:,.10g} in {grouping.name}={grouping.levels[k]!r}, and the fit "
                f"{then:,.10g}: {_REMEDY}"
            )
    if found.terms is None or own is None:
        return
    F = np.abs(np.diagonal(own.precision))
    with np.errstate(divide="ignore", invalid="ignore"):  # of a column of zeros
        gap = np.where(F > 0.0, np.abs(found.terms.gradient - own.gradient) / np.sqrt(F), 0.0)
    if not gap.max() <= limit:
        name = core.feature_names[int(gap.argmax())]
        raise DataError(
            f"data has as many rows as the fit, and other labels or columns: the score of {name!r} at the mode is off "
            f"by {number(float(gap.max()), 2)} sds (limit {limit:g}): {_REMEDY}"
        )
