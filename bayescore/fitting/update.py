"""More rows for a fit: a coreset of the new ones beside that of the old, and draws of both."""

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayescore.coresets.build import all_rows, build_coreset, build_dataset
from bayescore.coresets.multilevel import Multilevel, Start, varying_columns
from bayescore.data.blocks import is_stream
from bayescore.data.coreset import Coreset, totals_of
from bayescore.data.dataset import Dataset, joined
from bayescore.data.open import open_in
from bayescore.data.parquet import without_keys
from bayescore.data.passes import ObservationTotals
from bayescore.data.source import Source
from bayescore.diagnostics.results import Level, Need
from bayescore.families.family import check_family
from bayescore.fitting.earlier import EarlierRows, coreset_of_kept_rows, missed_by, standard_error
from bayescore.fitting.parts import known_prior, parameters
from bayescore.fitting.route import FAILURES, Given, Route, all_rows_of, coreset_text
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.models.predictor import Factor
from bayescore.priors import MultivariateNormal
from bayescore.priors.groups import is_default, standard_prior
from bayescore.report.certify import Certificate, certify, certify_update
from bayescore.samplers.posterior import Posterior, read_posterior
from bayescore.samplers.sample import AUTO
from bayescore.types import NO_GROUP, NO_ROW
from bayescore.validation import DataError, warn

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

_REMEDY = "give all rows: fit.update(data=rows)."
_FIRST_ORDER = 1.0  # sd in nats of what a coreset misses, beyond which first-order errors say little
_EXPECTED_WARNINGS = ("the labels are completely separated", "all .* rows of the coreset have one label")


@dataclass(frozen=True, eq=False, kw_only=True)
class NewRows(Given):
    """New rows, a coreset of earlier ones, and the sums and samples of the earlier rows that were `kept`."""

    whole: ClassVar[bool] = False

    fit: "Fit"
    kept: tuple[EarlierRows, ...] = ()

    def build(self, **options: Any) -> Coreset:
        """Return a coreset of earlier and new rows: of groups, or else a union, of few distinct rows a lossless one."""
        old = self.fit.coreset
        if old.group is None or (old.lossless and old.method != Multilevel.name):
            core = self._union(old, **options)
            if core.lossless:
                return build_coreset(core, method="aggregate", progressbar=self.progressbar, **options)
            if old.group is None:
                return core
        new = open_in(old.design, self.data, self.y, learn_groups=True, progress=self.progressbar, **self.roles)
        rows = joined(replace(old, design=new.design), new, _posterior_start(self.fit._posterior(), old))
        method = Multilevel(standard_prior)
        try:
            core = build_dataset(rows, method, None, options["random_state"], check_family(old.family))
        except FAILURES:  # a centre that is not found
            return self._union(old, **options)
        came = rows.scan.observations - ObservationTotals.of(old)
        weight = rows.scan.weight_total - float(old.weights.sum())
        arrived = replace(core, n_total=new.source.n_rows, weight_total=weight, **came.facts(weight))
        return replace(core, label=old.label, **totals_of([old, arrived]))

    def _union(self, old: Coreset, **options: Any) -> Coreset:
        """Return the earlier coreset beside one of the new rows about the posterior so far."""
        draws = self.fit._posterior().flat
        prior = MultivariateNormal(draws.mean(axis=0), np.atleast_2d(np.cov(draws.T)))
        with warnings.catch_warnings():
            for text in _EXPECTED_WARNINGS:  # the new rows do not stand alone
                warnings.filterwarnings("ignore", text, UserWarning)
            arguments = {"design": old.design, "family": old.family, **self.role_arguments()}
            try:
                new = build_coreset(self.data, self.y, prior=prior, **arguments, **options)
            except FAILURES as error:
                if old.group is not None:
                    raise DataError(f"no coreset of the new rows was found ({error}); {_REMEDY}") from error
                new = all_rows(self.data, self.y, **arguments)
        params = {**new.params, "prior": "the posterior of earlier rows"} if "prior" in new.params else new.params
        index = np.where(new.pseudo, NO_ROW, new.index + old.n_total)
        new = replace(new, index=index, label=old.label, params=params)
        return Coreset.concat([replace(old, design=new.design), new])

    def certify(self, idata: Any, core: Coreset, max_draws: int, model: Any = None) -> Certificate:  # noqa: ARG002
        """Return the certificate by the new rows and by what is kept of earlier ones."""
        if core.lossless:
            return certify(idata, core, core, max_draws=max_draws, progressbar=self.progressbar)
        before = replace(self.fit.coreset, design=core.design)  # which has new groups
        earlier = coreset_of_kept_rows(self.kept, before) if core.group is None and self.kept else before
        certificate = certify_update(idata, core, earlier, self.rows(core), max_draws=max_draws)
        if not certificate.trusted:
            if certificate.remedy is not None and certificate.remedy.need is Need.ROWS:
                return certificate._with(text=f"{certificate.text} Or {_REMEDY}")
            return certificate
        trouble, said, off = self._judge_earlier_rows(
            idata if certificate._idata is None else certificate._idata, before
        )
        if trouble:
            refused = f"Earlier rows were not read again, and {trouble}: {_REMEDY} Of the new rows: {certificate.text}"
            return certificate._with(level=Level.NOT_CERTIFIED, text=refused, idata=None, mean_bound=math.nan)
        said = f"Earlier rows were not read again: {said}."
        return certificate._with(
            text=f"{certificate.text} {said}", mean_bound=certificate.mean_bound + off, earlier_error=off
        )

    def _judge_earlier_rows(self, idata: Any, before: Coreset) -> tuple[str, str, float]:
        """Return why draws that can be used by the new rows cannot by the earlier ones; else a clause, and a bound.

        The bound is that of errors of means, in sds.
        """
        if not self.kept:
            return f"the fit was {self.fit.level!r} before the update, and kept nothing of its rows", "", math.nan
        posterior, n = read_posterior(idata, "idata"), sum(len(part.rows) for part in self.kept)
        if before.group is None:
            error = standard_error(self.kept, posterior.predictor(), check_family(before.family))
            said = f"the {n:,} of them that the fit kept tell means to {error:.2g} sd"
            return f"{said} (limit {NEGLIGIBLE_ERROR:g})" if not error <= NEGLIGIBLE_ERROR else "", said, 2.0 * error
        missed = missed_by(before, self.kept, posterior.predictor(), parameters(posterior)[1])
        said = f"by the {n:,} of them that the fit kept, what their coreset misses moves means by {missed.mean:.2g} sd"
        within = missed.spread <= _FIRST_ORDER and max(missed.mean, missed.sd, missed.error) <= NEGLIGIBLE_ERROR
        trouble = f"{said} and sds by {missed.sd:.0%}, known to {missed.error:.2g} sd (limits {NEGLIGIBLE_ERROR:g})"
        return "" if within else trouble, said, missed.mean + 2.0 * missed.error


def check_update(
    fit: "Fit", new: tuple[Any, Any, dict[str, Any]], data: Any, *, progressbar: bool
) -> tuple[dict[str, Any], Given | None]:
    """Return the roles of new rows, and all rows, if they are given as `data`; raise if an update can have neither."""
    rows, _, beside = new
    roles = {
        name: value for name, value in beside.items() if value is not None and (name, value) != ("missing", "raise")
    }
    if rows is None and data is None:
        raise TypeError("new is missing: give more rows, fit.update(rows), or all rows, fit.update(data=rows)")
    for name, given in (("new", rows), ("data", data)):
        if is_stream(given):
            raise TypeError(
                f"{name} is a {type(given).__name__}, whose rows come once: give a callable that returns a fresh "
                "iterator of blocks each time, a file, or a table"
            )
        if isinstance(given, Coreset | Source):
            raise TypeError(f"{name} is a {type(given).__name__}; give rows")
    of_all = roles if rows is None else {name: value for name, value in roles.items() if name == "missing"}
    return roles, None if data is None else all_rows_of(fit.coreset, data, of_all, progressbar=progressbar)


def route_of_update(
    fit: "Fit", new: tuple[Any, Any, dict[str, Any]], data: Any, *, progressbar: bool
) -> tuple[Route, Given | None]:
    """Return the route of a fit updated by new rows, labels and roles, and all rows, if they are given as `data`."""
    rows, y, _ = new
    roles, whole = check_update(fit, new, data, progressbar=progressbar)
    kept = fit._kept
    if not kept and whole is None and fit.coreset.lossless:
        source = Dataset(fit.coreset.as_source(), fit.coreset.design)
        kept = (EarlierRows.of(source, fit.coreset, fit._posterior().predictor()),)
    arrived = NewRows(rows, y, roles=roles, progressbar=progressbar, fit=fit, kept=kept)
    remedy = ", so that update cannot draw again; give the fit a prior first: fit.with_prior(prior).update(...)"
    prior = known_prior(fit, remedy)
    core, sds = fit.coreset, fit.group_prior
    route = Route(
        whole or arrived,
        core.family,
        fit.prior,
        fit._seed,
        fit._max_seconds,
        story=list(fit.story),
        # the default one of numbers goes by all rows
        in_design=None if core.numbers else prior,
        group_prior=None if is_default(sds, core) else sds,
        options=replace(fit._options, method=AUTO, size=AUTO),  # the coreset grows by new rows
    )
    route.core, route.drawn = core, fit._drawn
    if rows is None:
        route.certify(strict=(DataError,))
        route.keep()
        return route, whole

    came = "new rows"
    if isinstance(rows, str | Path):
        came = f"rows of {without_keys(str(rows))!r}"
        if any(step.why.startswith(f"{came} beside") for step in fit.story):
            warn(f"new={without_keys(str(rows))!r} was added before: rows that are the same count twice")

    def said(core: Coreset) -> tuple[int, int, str]:
        about = core.params["parts"][-1] if "parts" in core.params else core.params
        passes = int(about.get("passes", 0))
        return core.n_total - fit.coreset.n_total, passes, f"{came} beside earlier ones: {coreset_text(core)}"

    route.core = route.timed("update", lambda: arrived.build(random_state=route.next_seed()), said)
    if route.core.n_total == fit.coreset.n_total:
        raise DataError("new has no rows that count; give rows of positive weight")
    route.sample_until_certified(strict=() if whole is None else (DataError,))  # rows that are not all rows
    if whole is not None or route.core.lossless:
        route.keep()
    elif kept:
        share = 1.0 - fit.coreset.n_total / route.core.n_total
        route.kept = (*kept, route.earlier_rows_of(arrived.rows(route.core), share))
    return route, whole


def _posterior_start(posterior: Posterior, core: Coreset) -> Start:
    """Return where the posterior so far is, by cell of its coreset's groups."""
    codes, columns = (
        np.unique(core.group_codes[core.group_codes[:, 0] != NO_GROUP], axis=0),
        varying_columns(core.design),
    )
    mean = np.zeros((len(codes), len(columns)))
    for grouping, code in zip(core.groups, codes.T, strict=True):
        effects = Factor.of(grouping, posterior.variables).mean(slice(None))
        for q, effect in enumerate(grouping.effects):
            for at, weight in (core.design.columns_of(grouping, effect) or {columns[0]: 1.0}).items():
                mean[:, np.searchsorted(columns, at)] += weight * effects[code, q]
    return Start.near(posterior.flat.mean(axis=0), codes, mean)
