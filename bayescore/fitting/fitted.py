"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bayescore.data.design import terms_text
from bayescore.fitting.files import read_parts, save_fit
from bayescore.fitting.pictures import FitPictures
from bayescore.fitting.route import Route
from bayescore.fitting.scaling import check_priors
from bayescore.models.priors import Prior
from bayescore.validation import warn


class Fit(FitPictures):
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

    @classmethod
    def of(cls, route: Route) -> Self:
        """Return the fit at the end of a route; warn if it is not certified."""
        found = route.certificate
        if not found.trusted:
            warn(f"the draws are not certified: {found.text} The story says what was tried (fit.story)")
        settings = route.prior, route.seed, route.max_seconds, route.given
        return cls(route.core, route.drawn, found, tuple(route.story), *settings)

    def with_prior(self, prior: Prior | Mapping[str, Prior] | None) -> Self:
        """Return the fit under another prior, from the same coreset, certified anew.

        Parameters
        ----------
        prior : prior or dict of str to prior, optional
            As in `fit`.

        Raises
        ------
        TypeError, ValueError
            If it is not a prior, or names a coefficient that is not there.
        DataError
            If the fit was read from files and the rows were not given.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> tight = fit.with_prior({"x0": bc.priors.Normal(0, 0.05)})
        >>> tight.level, bool(tight.summary()["mean"]["x0"] < 0.8 * fit.summary()["mean"]["x0"])
        ('certified', True)
        """
        check_priors(prior)
        route = Route(self.rows_given, self.coreset.family, prior, self.seed, self.max_seconds)
        route.story = [step for step in self.story if step.what == "build"]
        route.core = self.coreset
        route.design_prior()  # names of coefficients
        route.settle()
        return self.of(route)

    def save(self, folder: str | Path) -> None:
        """Write the fit to a folder of Parquet, netCDF and JSON files, which `read_fit` reads.

        The rows are not written.

        Raises
        ------
        OSError
            If the folder cannot be written, or is there and holds no fit; an earlier fit is then untouched.

        Examples
        --------
        See `read_fit`.

        >>> fit.save("model")  # doctest: +SKIP
        """
        save_fit(self, folder)

    def _lines(self) -> list[str]:
        advice = "these draws can be used"
        if not self.certificate.trusted:
            advice = self.certificate.text
        core = self.coreset
        model = self.formula or f"{core.label} ~ {core.n_features} columns"
        terms = f" + {terms_text(core.groups)}" if core.groups and self.formula is None else ""
        lines = [f"{self.level}: {advice}", f"  {core.family} regression of {model}{terms}"]
        lines += [f"  {step}" for step in self.story]
        if self.certificate.dispersion is not None:
            lines.append(f"  {self.certificate.dispersion.text}")
        default = "default, Normal(0, 2.5 / sd) of each column, Normal(0, 2.5) of the intercept at their means"
        return [*lines, f"  prior: {default if self.prior is None else self.prior}"]

    def __repr__(self) -> str:
        return "\n".join([*self._lines(), "", self.summary().to_string(float_format=lambda x: f"{x:.4g}")])

    def _repr_html_(self) -> str:
        lines = "<br>".join(html.escape(line.strip()) for line in self._lines())
        return f"<div>{lines}</div>{self.summary().to_html(float_format=lambda x: f'{x:.4g}')}"


def read_fit(folder: str | Path, data: Any = None, y: Any = None) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder.
    data, y : rows and labels, optional
        Those that the fit was made of, for answers that need them (another prior, averages over all rows, `loo`). The
        fit remembers which columns play which role; arrays of weights and the like are not kept.

    Returns
    -------
    Fit

    Raises
    ------
    FileNotFoundError
        If the folder holds no fit.
    DataError
        If a file was changed since, or is damaged; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    >>> folder = tempfile.mkdtemp()
    >>> fit.save(folder)
    >>> again = bc.read_fit(folder)
    >>> again.level, bool((again.summary() == fit.summary()).all(axis=None))
    ('certified', True)
    """
    return Fit(**read_parts(folder, data, y))
