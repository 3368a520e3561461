"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data."""

import html
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bayescore.data.coreset import Coreset
from bayescore.data.design import terms_text
from bayescore.data.formulas.design import formula_of
from bayescore.fitting.files import read_parts, save_fit
from bayescore.fitting.given import Given
from bayescore.fitting.pictures import FitPictures
from bayescore.fitting.route import MAX_DRAWS, Route
from bayescore.fitting.scaling import check_priors, raw_prior
from bayescore.fitting.story import Step
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.inference_data import of_own_model, read_posterior
from bayescore.validation import DataError, warn

ROLES = ("label", "weights", "offset", "trials", "groups", "missing")


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

    @classmethod
    def of_draws(
        cls,
        idata: Any,
        core: Coreset,
        data: Any = None,
        y: Any = None,
        *,
        model: Any = None,
        progressbar: bool = True,
        **roles: Any,
    ) -> Self:
        """Return the fit of draws of a coreset's posterior, certified by all rows, to ask what a fit answers.

        Parameters
        ----------
        idata : InferenceData
            From `sample`, with any prior and sampler, or of a model of your own.
        core : Coreset
            What they were drawn from.
        data, y : rows and labels, optional
            The rows that the coreset was built from. A coreset that lost nothing needs none.
        model : pm.Model, optional
            The model of your own that the draws are of, as `certify` takes it.
        progressbar : bool
            Show progress.
        **roles
            `label`, `weights`, `offset`, `trials`, `groups`, `missing` as given to `build_coreset`.

        Raises
        ------
        TypeError, DataError
            If the draws are not of this coreset, or the rows others than its own.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> y = X[:, 0] + rng.logistic(size=5000) > 0
        >>> core = bc.build_coreset(X, y, intercept=True, random_state=1, progressbar=False)
        >>> idata = bc.sample(core, random_seed=2, progressbar=False)
        >>> fit = bc.Fit.of_draws(idata, core, X, y, progressbar=False)
        >>> fit.level, fit.slopes("x0")["mean"].round(2).tolist()
        ('certified', [0.21])
        """
        if not isinstance(core, Coreset):
            raise TypeError(f"core is a {type(core).__name__}; give the coreset that the draws are of")
        if unknown := sorted(set(roles) - set(ROLES)):
            raise TypeError(f"{unknown[0]}={roles[unknown[0]]!r} is no role of a column; they are {', '.join(ROLES)}")
        if data is None and not core.lossless:
            raise TypeError(
                f"data is missing: the coreset, of method {core.method!r}, misses a part of its rows; give them"
            )
        idata = idata if model is None else of_own_model(idata, core)
        story, prior = read_posterior(idata, "idata").story, None
        if story:
            prior = raw_prior(prior_from_dict(story["prior"]), core.design)
        elif model is None:
            raise DataError(
                "idata does not tell its prior; give what bayescore.sample returned for a coreset, or model=, the "
                "PyMC model that the draws are of"
            )
        rows, labels = (core, None) if data is None else (data, y)
        formula = None if data is None else formula_of(core.design)
        intercept = core.design.constant is not None
        given = Given(rows, labels, formula, intercept, core.classes[1], roles, progressbar)
        begin = time.perf_counter()
        found = given.certify(idata, core, MAX_DRAWS, model)
        taken, why = time.perf_counter() - begin, f"{found.level}: {found.text}"
        route = Route(given, core.family, prior, 0, 600.0)
        route.core, route.drawn, route.certificate = core, idata, found
        route.story = [Step("certify", core.n_total, found.n_passes, taken, why)]
        return cls.of(route)

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
        where = "at their means" if core.design.center is not None else "where they are 0"
        default = "default, Normal(0, 2.5 / sd) of each column"
        if core.design.constant is not None:
            default += f", Normal(0, 2.5) of the intercept {where}"
        if "posterior_of" not in self.drawn.posterior.attrs:
            default = "that of a model of your own"
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
