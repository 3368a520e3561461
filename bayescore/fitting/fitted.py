"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.design import terms_text
from bayescore.data.formulas.design import formula_of
from bayescore.diagnostics.certificate import Certificate
from bayescore.fitting.given import Given
from bayescore.fitting.story import Step
from bayescore.fitting.units import PROB, parameters, table
from bayescore.models.priors import Prior
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.samplers.prior_summary import prior_summary
from bayescore.validation import DataError, check_choice


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """What `fit` returns.

    Parameters
    ----------
    coreset : Coreset
        The rows that were sampled.
    drawn : InferenceData
        Their posterior as it was drawn; `idata` has what is to be used.
    certificate : Certificate
        The verdict on these draws, by all rows.
    story : tuple of Step
        What was done, in order.
    prior : prior or dict of str to prior, optional
        As given to `fit`; None for the default.
    seed : int
        Seed that repeats the fit.
    max_seconds : float
        As given to `fit`.
    given : Given, optional
        The rows and the roles of their columns; None of a fit that was read from files.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    >>> print(str(fit).splitlines()[0])
    certified: these draws can be used
    >>> [step.what for step in fit.story]
    ['build', 'sample', 'certify']
    >>> fit.idata.posterior["coef"].dims
    ('chain', 'draw', 'feature')
    """

    coreset: Coreset
    drawn: Any
    certificate: Certificate
    story: tuple[Step, ...]
    prior: Prior | Mapping[str, Prior] | None = None
    seed: int = 0
    max_seconds: float = 600.0
    given: Given | None = None

    @property
    def level(self) -> str:
        """The verdict: "certified", "corrected" or "not certified"."""
        return str(self.certificate.level)

    @property
    def idata(self) -> Any:
        """The draws to use: the certificate's corrected ones, or where it is not certified those that were drawn."""
        return self.drawn if self.certificate.idata is None else self.certificate.idata

    @property
    def formula(self) -> str | None:
        """The formula, if the fit has one."""
        return formula_of(self.coreset.design)

    def posterior(self) -> Posterior:
        """Return the draws to use as arrays."""
        return read_posterior(self.idata, "fit.idata")

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd, interval, effective sample sizes and R-hat of each parameter, in units of the data.

        Parameters
        ----------
        scale : {"coef", "odds"}
            Coefficients, with the sds and correlations of groups' effects; or odds ratios for one unit more, or of a
            level against the first, of a logistic regression.
        prob : float
            Probability of the equal-tailed interval, whose ends have their percentages for names.

        Returns
        -------
        DataFrame
            A row for each parameter. The level stands above the columns and in ``attrs["level"]``.

        Raises
        ------
        ValueError, DataError
            If `scale` is unknown, or is "odds" of a family whose coefficients are no log odds ratios.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.summary(scale="odds")["mean"].round(1).to_dict()
        {'x0': 2.7}
        """
        check_choice(scale, "scale", ("coef", "odds"))
        posterior = self.posterior()
        names, draws = parameters(posterior)
        if scale == "odds":
            if posterior.family.ratio != "odds ratio":
                raise DataError(
                    f"scale='odds', but the family is {posterior.family.name!r}, whose coefficients are no log odds "
                    "ratios; see comparisons"
                )
            kept = [d for d in range(len(posterior.features)) if d != self.coreset.design.constant]
            names, draws = [names[d] for d in kept], np.exp(draws[..., kept])
        return self._labelled(table(names, draws, prob))

    def prior_summary(self) -> pd.DataFrame:
        """Return the prior of each coefficient, as the design's columns and as the data's own have it.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = 10.0 * rng.normal(size=(2000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=2000) > 0, random_state=1, progressbar=False)
        >>> fit.prior_summary()["in_data_units"]["Intercept"]
        "Normal(mu=0, sigma=2.5), at the columns' means"
        """
        return prior_summary(self.drawn)

    def _labelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the level in its attributes and above its columns."""
        frame.attrs["level"] = self.level
        frame.columns.name = self.level
        return frame

    def _lines(self) -> list[str]:
        advice = "these draws can be used"
        if not self.certificate.trusted:
            advice = self.certificate.text
        core = self.coreset
        model = self.formula or f"{core.label} ~ {core.n_features} columns"
        terms = f" + {terms_text(core.groups)}" if core.groups and self.formula is None else ""
        lines = [f"{self.level}: {advice}", f"  {core.family} regression of {model}{terms}"]
        lines += [f"  {step}" for step in self.story]
        default = "default, Normal(0, 2.5 / sd) of each column, Normal(0, 2.5) of the intercept at their means"
        return [*lines, f"  prior: {default if self.prior is None else self.prior}"]

    def __repr__(self) -> str:
        return "\n".join([*self._lines(), "", self.summary().to_string(float_format=lambda x: f"{x:.4g}")])

    def _repr_html_(self) -> str:
        lines = "<br>".join(html.escape(line.strip()) for line in self._lines())
        return f"<div>{lines}</div>{self.summary().to_html(float_format=lambda x: f'{x:.4g}')}"
