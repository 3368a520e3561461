"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data."""

import html
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from bayescore.data.coreset import Coreset
from bayescore.fitting.clusters import FitClusters
from bayescore.fitting.draws import route_of_draws
from bayescore.fitting.files import read_parts, save_fit
from bayescore.fitting.printed import printed_lines
from bayescore.fitting.route import Route
from bayescore.fitting.same_rows import in_memory
from bayescore.fitting.scaling import check_priors
from bayescore.fitting.short_tables import short
from bayescore.fitting.update import updated
from bayescore.models.priors import Prior
from bayescore.validation import warn


class Fit(FitClusters):
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
        The rows and the roles of their columns; None of a fit of a coreset that misses a part of them, or that was read
        from files, or updated without all rows.
    frames : tuple of Frame
        What is known of rows that are not read again, of a fit that was updated.
    robust : InferenceData, optional
        Draws with cluster-robust spread, of `cluster_robust`.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    >>> print(str(fit).splitlines()[0])
    These draws can be used: certified. Means are within 0.07 posterior sd of the full data's.
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
        settings = route.prior, route.seed, route.max_seconds, None if route.given.lossy else route.given
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
            `label`, `weights`, `offset`, `trials`, `exposure`, `groups`, `missing` as given to `build_coreset`.

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
        return cls.of(route_of_draws(idata, core, (data, y), roles, model=model, progressbar=progressbar))

    def with_prior(self, prior: Prior | Mapping[str, Prior] | None) -> Self:
        """Return the fit under another prior of the coefficients, from the same coreset, certified anew.

        Parameters
        ----------
        prior : prior or dict of str to prior, optional
            As in `fit`.

        Raises
        ------
        TypeError, ValueError
            If it is not a prior, or names a coefficient that is not there.
        DataError
            If the fit was read from files, or updated, without all rows, or its spread is cluster-robust.

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
        self._check_model_spread("with_prior")
        check_priors(prior)
        settings = self.coreset.family, prior, self.seed, self.max_seconds
        route = Route(self.rows_given, *settings, group_prior=self.group_prior)
        route.story = [step for step in self.story if step.what in ("build", "update")]
        route.core = self.coreset
        route.design_prior()  # names of coefficients
        route.settle()
        return self.of(route)

    def update(
        self,
        new: Any = None,
        y: Any = None,
        *,
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
        exposure: Any = None,
        groups: Any = None,
        missing: str = "raise",
        data: Any = None,
        progressbar: bool = True,
    ) -> Self:
        """Return the fit of the rows so far and of new ones, without reading the old ones.

        The new rows become a coreset in the same design, about the posterior so far, which the old coreset is united
        with; draws are made again. A prior that was given stays, and the default one of numbers goes by all rows. The
        certificate holds them against the new rows, and for the old ones against their coreset with the score and
        curvature that it misses. It is "not certified" where the mean has moved beyond the reach of the posterior that
        the old rows were held against, or errors found of them add up to too much: the text says by how many sds, and
        all rows are then to be given as `data`.

        Parameters
        ----------
        new : rows, optional
            More rows, of any kind that `fit` takes but an iterator, with the same columns; a new group is welcome.
        y : labels, optional
            Labels of new rows that have none of their own.
        weights, offset, trials, exposure, groups, missing
            As in `fit`; roles that were columns are remembered.
        data : rows, or pair of rows and labels, optional
            All rows, old and new, to certify by them; with `new` left out the draws stay.
        progressbar : bool
            Show progress.

        Returns
        -------
        Fit
            Its story goes on from this one's.

        Raises
        ------
        DataError
            If new rows have other columns, labels or levels of a factor, or cannot be used, or the fit's spread is
            cluster-robust.
        TypeError
            If neither `new` nor `data` is given, or rows come once.

        Warns
        -----
        UserWarning
            If the draws could not be certified.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(45, 12, 9000), "device": rng.choice(["phone", "tablet"], 9000)})
        >>> rows["clicked"] = 0.05 * (rows["age"] - 45) + rng.logistic(size=9000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows[:6000], random_state=1, progressbar=False)
        >>> more = fit.update(rows[6000:], progressbar=False)
        >>> more.level, more.coreset.n_total, [step.what for step in more.story]
        ('certified', 9000, ['build', 'sample', 'certify', 'update', 'sample', 'certify'])
        """
        self._check_model_spread("update", "; on the command line fit again without --cluster")
        beside = {"weights": weights, "offset": offset, "trials": trials, "exposure": exposure, "groups": groups}
        beside["missing"] = missing
        found = updated(self, (new, y, beside), data, progressbar=progressbar)
        return replace(self.of(found.route), given=found.given, frames=found.frames)

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

    def __repr__(self) -> str:
        return "\n".join([*printed_lines(self), "", self.summary().to_string(float_format=short)])

    def _repr_html_(self) -> str:
        lines = "<br>".join(html.escape(line.strip()) for line in printed_lines(self))
        return f"<div>{lines}</div>{self.summary().to_html(float_format=short)}"


def read_fit(folder: str | Path, data: Any = None, y: Any = None, *, progressbar: bool = True) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder.
    data, y : rows and labels, optional
        Those that the fit was made of, for answers that need them (another prior, averages over all rows, `loo`). The
        fit remembers which columns play which role; arrays of weights and the like are not kept. Their number, weight
        and score, or labels by group, are checked: of rows in memory here, of others by a pass before the first answer.
    progressbar : bool
        Show progress of answers that read these rows, as `fit` does.

    Returns
    -------
    Fit

    Raises
    ------
    FileNotFoundError
        If the folder holds no fit.
    DataError
        If a file was changed since, or is damaged; the message names it. If `data` are other rows.

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
    found = Fit(**read_parts(folder, data, y, progressbar=progressbar))
    if in_memory(data):
        found.check_rows()
    return found
