"""The parts of a `Fit`, and what all its answers begin and end with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.formulas.design import formula_of
from bayescore.diagnostics.certificate import Certificate
from bayescore.diagnostics.results import Level
from bayescore.fitting.frames import Frame
from bayescore.fitting.given import Given
from bayescore.fitting.same_rows import check_same_rows
from bayescore.fitting.short_tables import ShortTable
from bayescore.fitting.story import Step
from bayescore.models.group_priors import GroupPrior
from bayescore.models.priors import Prior
from bayescore.samplers.grouped import group_prior_of
from bayescore.samplers.inference_data import Posterior, fewer_draws, read_posterior
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False, repr=False)
class FitParts:
    """The fields of `Fit`, which explains them."""

    coreset: Coreset
    drawn: Any
    certificate: Certificate
    story: tuple[Step, ...]
    prior: Prior | Mapping[str, Prior] | None = None
    seed: int = 0
    max_seconds: float = 600.0
    given: Given | None = None
    frames: tuple[Frame, ...] = ()
    robust: Any = None

    @property
    def rows_given(self) -> Given:
        """The rows and their roles; those of a coreset that lost nothing are its own."""
        return Given(self.coreset) if self.given is None and self.coreset.lossless else self.rows_of_data

    @property
    def rows_of_data(self) -> Given:
        """The rows as they were given, with their roles; those given again are checked once."""
        if self.given is not None:
            self.check_rows()
            return self.given
        raise DataError(
            "the fit was made of a coreset, read from files, or updated, and does not have all its rows: give them "
            "to the fit, read_fit(folder, data) or fit.update(data=rows), or to an answer that takes data=rows"
        )

    def check_rows(self) -> None:
        """Raise if rows were given again and are not those of the fit; one pass, until they were found the same."""
        given = self.given
        if given is None or given.known:
            return
        point, frames = self.posterior().flat.mean(axis=0), bool(self.frames)
        check_same_rows(given, self.coreset, self.certificate.effects, point, updated=frames)
        object.__setattr__(given, "known", True)

    @property
    def level(self) -> str:
        """The verdict: "certified", "corrected" or "not certified"."""
        return str(self.certificate.level)

    @property
    def idata(self) -> Any:
        """The draws to use: cluster-robust or else corrected ones; those that were drawn where there are none.

        Where all draws are certified as they are, and only some of them were weighed and corrected, all are used.
        """
        if self.robust is not None:
            return self.robust
        corrected = self.certificate.idata
        if corrected is None or (self.level == Level.CERTIFIED and fewer_draws(corrected, self.drawn)):
            return self.drawn
        return corrected

    @property
    def group_prior(self) -> GroupPrior | None:
        """The prior of the sds of groups' effects; None without groups, and of a model of your own."""
        return group_prior_of(self.drawn.posterior.attrs)

    @property
    def spread(self) -> str:
        """Whose spread the draws have, as "cluster-robust by 60 clusters of 'district'"; empty if the model's own."""
        return "" if self.robust is None else str(self.robust.posterior.attrs["spread"])

    @property
    def formula(self) -> str | None:
        """The formula, if the fit has one."""
        return formula_of(self.coreset.design)

    def posterior(self) -> Posterior:
        """Return the draws to use as arrays."""
        return read_posterior(self.idata, "fit.idata")

    @property
    def _about(self) -> dict[str, str]:
        """Return what every answer says about the draws behind it."""
        return {"level": self.level, **({"spread": self.spread} if self.spread else {})}

    @property
    def _heading(self) -> str:
        """Return the same in few words."""
        if not self.spread:
            return self.level
        short, clusters, _ = self.spread.partition(" clusters")
        return f"{self.level}, {short}{clusters}"

    def _labelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the level in its attributes and above its columns."""
        found = ShortTable(frame)
        found.attrs.update(self._about)
        found.columns.name = self._heading
        return found

    def _check_model_spread(self, what: str, otherwise: str = "") -> None:
        """Raise if the draws are not those of the model's own posterior, which an answer is of; name another way."""
        if self.spread:
            raise DataError(
                f"{what} is of the model's own posterior, and the spread of these draws is {self.spread}; ask "
                f"fit.cluster_robust(None), which has the model's own spread{otherwise}"
            )
