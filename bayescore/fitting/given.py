"""What `fit` was given: rows and the roles of their columns, remembered so that later questions need none."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayescore.coresets.build import all_rows, build_coreset
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.designed import open_designed
from bayescore.data.formulas.design import formula_of
from bayescore.data.formulas.parsing import parsed
from bayescore.data.source import Source
from bayescore.data.sources import has_named_columns
from bayescore.data.sources.blocks import is_stream
from bayescore.diagnostics.certificate import Certificate, certify
from bayescore.diagnostics.full_pass import full_rows
from bayescore.models.group_priors import check_group_prior
from bayescore.models.priors import Prior, leaves_out, prior_of
from bayescore.types import INTERCEPT, WeightedData
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
