"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data.

The end of a route for draws that `fit` did not make: certified by all rows, they answer what a fit answers.

Predictions of the rows of a file, written to another beside the rows' own columns.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pandas as pd

from bayescore.coresets.build import all_rows
from bayescore.data.batches import read_csv
from bayescore.data.coreset import Coreset
from bayescore.data.formula_design import formula_of
from bayescore.files import whole_file
from bayescore.fitting.clusters import FitClusters
from bayescore.fitting.files import ROLES, read_parts, save_fit
from bayescore.fitting.overview import overview
from bayescore.fitting.predictive import with_predictive
from bayescore.fitting.route import MAX_DRAWS, Given, Route, Step, check_priors, in_memory, raw_prior, refused
from bayescore.fitting.update import updated
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import is_default
from bayescore.samplers.posterior import of_own_model, read_posterior
from bayescore.samplers.sample import sample
from bayescore.validation import DataError, RandomState, one_seed, warn


def route_of_draws(
    idata: Any, core: Coreset, given_rows: tuple[Any, Any], roles: Mapping[str, Any], *, model: Any, progressbar: bool
) -> Route:
    """Return the route whose last step is the certificate of draws; arguments as in `Fit.from_draws`."""
    data, y = given_rows
    if not isinstance(core, Coreset):
        raise TypeError(f"core is a {type(core).__name__}; give the coreset that the draws are of")
    if unknown := sorted(set(roles) - set(ROLES)):
        raise TypeError(f"{unknown[0]}={roles[unknown[0]]!r} is no role of a column; they are {', '.join(ROLES)}")
    if data is None and (extra := [name for name, own in {"y": y, **roles}.items() if own is not None]):
        raise TypeError(f"{extra[0]} is given and data is not: give the rows too, or neither")
    idata = idata if model is None else of_own_model(idata, core)
    posterior, prior = read_posterior(idata, "idata"), None
    story = posterior.story
    if story:
        own = prior_from_dict(story["prior"])
        prior = None if is_default(own, core) else raw_prior(own, core.design)
    elif model is None:
        raise DataError(
            "idata does not tell its prior; give what bayescore.sample returned for a coreset, or model=, the "
            "PyMC model that the draws are of"
        )
    if posterior.features != core.feature_names or (story and story["rows"] != core.rows_digest):
        raise DataError("idata is not of core's posterior; give the coreset that the draws are of")
    rows, labels = (core, None) if data is None else (data, y)
    formula = None if data is None else formula_of(core.design)
    intercept = core.design.constant is not None
    positive = core.classes[1] if core.response == "labels" else None
    given = Given(rows, labels, formula, intercept, positive, dict(roles), progressbar)
    begin = time.perf_counter()
    if given.lossy or (model is not None and core.groups):
        found = refused(idata, _UNCHECKED if given.lossy else _OWN_GROUPS)
    else:
        found = given.certify(idata, core, MAX_DRAWS, model)
    taken, why = time.perf_counter() - begin, f"{found.level}: {found.text}"
    route = Route(given, core.family, prior, 0, 600.0)
    route.core, route.drawn, route.certificate = core, idata, found
    route.story = [Step("certify", core.n_total, found.n_passes, taken, why)]
    route.keep()
    return route


_UNCHECKED = (
    "The draws were not checked: no rows were given, and the coreset misses a part of them. Give the rows, "
    "Fit.from_draws(idata, core, rows), or to this fit, fit.update(data=rows)."
)

_OWN_GROUPS = (
    "The draws were not checked: there is no certificate of a model of your own with effects of groups. Draws of "
    "sample(core), or of fit with a term (1 | g), have one."
)


class Fit(FitClusters):
    """What `fit`, `read_fit` and `Fit.from_draws` return: it answers questions about the posterior.

    Attributes
    ----------
    coreset : Coreset
        The rows that were sampled.
    idata : InferenceData
        The draws to use.
    certificate : Certificate
        The verdict on the draws, by all rows.
    level : str
        "certified", "corrected" or "not certified".
    story : tuple of Step
        What was done, in order.
    formula : str or None
        The formula, a dot in it spelled out.
    prior : prior, dict of str to prior, or None
        As given to `fit`; None for the default.
    group_prior : HalfStudentT, HalfNormal or None
        The prior of the sds of groups' effects.
    spread : str
        Whose spread the draws have, as "cluster-robust by 60 clusters of 'district'"; empty if the model's own.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    >>> print(str(fit).splitlines()[0])
    Bayesian logistic regression                                           CERTIFIED
    >>> [step.what for step in fit.story]
    ['build', 'sample', 'certify']
    >>> fit.idata.posterior["coef"].dims
    ('chain', 'draw', 'feature')
    """

    @classmethod
    def _of(cls, route: Route) -> Self:
        """Return the fit at the end of a route; warn if it is not certified."""
        found = route.certificate
        if not found.trusted:
            warn(f"the draws are not certified: {found.text} The story says what was tried (fit.story)")
        settings = route.prior, route.seed, route.max_seconds, None if route.given.lossy else route.given
        return cls(route.core, route.drawn, found, tuple(route.story), *settings, route.kept, _options=route.options)

    @classmethod
    def from_draws(
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
        """Return the fit of draws that were made by hand, certified by all rows, to ask what a fit answers.

        Parameters
        ----------
        idata : InferenceData
            From `sample`, with any prior and sampler, or of a model of your own.
        core : Coreset
            What they were drawn from.
        data, y : rows and labels, optional
            The rows that the coreset was built from. A coreset that lost nothing needs none. Without the rows of
            another the level is "not certified"; what needs no rows, such as summaries, predictions and effects, is
            answered all the same.
        model : pm.Model, optional
            The model of your own that the draws are of, as `certify` takes it.
        progressbar : bool
            Show progress.
        **roles
            `label`, `weights`, `offset`, `trials`, `exposure`, `groups`, `missing` as given to `build_coreset`.

        Returns
        -------
        Fit

        Raises
        ------
        TypeError, DataError
            If the draws are not of this coreset, or the rows others than its own.

        Warns
        -----
        UserWarning
            If the draws are not certified.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> y = X[:, 0] + rng.logistic(size=5000) > 0
        >>> core = bc.build_coreset(X, y, intercept=True, random_state=1, progressbar=False)
        >>> idata = bc.sample(core, random_seed=2, progressbar=False)
        >>> fit = bc.Fit.from_draws(idata, core, X, y, progressbar=False)
        >>> fit.level, fit.slopes("x0")["mean"].round(2).tolist()
        ('certified', [0.21])
        """
        return cls._of(route_of_draws(idata, core, (data, y), roles, model=model, progressbar=progressbar))

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
        settings = self.coreset.family, prior, self._seed, self._max_seconds
        route = Route(self._rows_given, *settings, group_prior=self.group_prior, options=self._options)
        route.story = [step for step in self.story if step.what in ("build", "update")]
        route.core = self.coreset
        route.design_prior()  # names of coefficients
        route.settle()
        return replace(self._of(route), _kept=self._kept)  # of the same rows

    def all_rows_posterior(
        self,
        *,
        random_state: RandomState = None,
        random_seed: RandomState = None,
        progressbar: bool = True,
        **options: Any,
    ) -> Any:
        """Return the posterior of all rows under the fit's design and priors, a reference for `compare_posteriors`.

        Parameters
        ----------
        random_state, random_seed : int, Generator, SeedSequence or None
            Seed, by either name; None for one that follows from the fit's.
        progressbar : bool
            Show progress.
        **options
            As `sample` takes them: draws, tune, chains, sampler.

        Returns
        -------
        InferenceData

        Raises
        ------
        DataError
            If the fit does not have its rows, its draws are of a model of your own, or its spread is cluster-robust.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 2))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> reference = fit.all_rows_posterior(progressbar=False)
        >>> str(bc.compare_posteriors(fit, reference).verdicts["candidate"].level) in ("indistinguishable", "close")
        True
        """
        self._check_model_spread("all_rows_posterior")
        prior = self._known_prior("; see with_prior")
        given, core = self._rows_given, self.coreset
        whole = given.data
        if not isinstance(whole, Coreset):
            told = {**given.told(), "progressbar": progressbar}
            whole = all_rows(given.data, given.y, **told, family=core.family, design=core.design)
            whole = replace(whole, params={**core.params, **whole.params} if core._sd_unknown else whole.params)
        if core.groups:
            options.setdefault("group_prior", self.group_prior)
        seed = one_seed(random_state, random_seed)
        seed = self._seed + 1 if seed is None else seed
        return sample(whole, prior=prior, random_seed=seed, progressbar=progressbar, **options)

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
        certificate holds them against the new rows, and for the old ones against sums and a sample of up to 20,000 rows
        that the fit kept. Draws are "corrected" where the old coreset is not right any more, with groups
        "not certified". They are "not certified", too, where the sample says too little of the old rows. All rows are
        then to be given as `data`.

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
        return replace(self._of(found.route), _given=found.given, _kept=found.kept)

    def inference_data(
        self, data: Any = None, y: Any = None, *, max_draws: int = 1000, random_state: RandomState = 0
    ) -> Any:
        """Return draws, log-likelihoods and replicated responses of rows, as ArviZ's functions take them.

        For `az.loo`, `az.plot_ppc` and the like: `Fit.loo` and `Fit.check` answer the same of all rows without ArviZ.

        Parameters
        ----------
        data, y : rows and their responses, optional
            As given to `fit`; each counts once. By default the rows of the fit. Of more than 20,000 a sample of so many
            is taken. Or rows of ``all_rows(..., design=fit.coreset.design)``, all of them.
        max_draws : int
            Draws used, evenly spaced; 9 bytes of memory for each of them and each row, of numbers 16.
        random_state : int, Generator, SeedSequence or None
            Seed of the replicated responses, kept in the group's attributes.

        Returns
        -------
        InferenceData
            The installed ArviZ's. The group ``posterior`` has each parameter of `Fit.summary`, in units of the data;
            ``log_likelihood``, ``posterior_predictive`` and ``observed_data`` have ``y``: 1 for the class that is +1
            and 0 for the other, counts at the rows' exposures, or numbers. Densities are given the effects of the
            rows' groups; where some row is of a new group, whose effect is drawn, there are none.

        Raises
        ------
        DataError
            If the rows are not there, have weights, or do not fit, or the draws' spread is cluster-robust.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> found = fit.inference_data()  # for az.plot_ppc(found), az.loo(found)
        >>> found["posterior_predictive"]["y"].shape, found["log_likelihood"]["y"].shape
        ((4, 250, 5000), (4, 250, 5000))
        """
        self._check_model_spread("inference_data")
        return with_predictive(self, data, y, max_draws=max_draws, random_state=random_state)

    def save(self, folder: str | Path) -> None:
        """Write the fit to a folder of Parquet, netCDF and JSON files, which `read_fit` reads.

        Of the rows, the folder has the coreset and a sample of up to 20,000 of them.

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
        return overview(self).text()

    def _repr_html_(self) -> str:
        return overview(self).html()


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
        found._check_rows()
    return found


_KINDS = (".csv", ".parquet")


def check_files(rows: Path, output: Path) -> None:
    """Raise unless there are rows, and the output's name ends as a kind of file that is written."""
    if output.suffix.lower() not in _KINDS:
        raise ValueError(f"--output={str(output)!r} is of no kind that predict writes; end it in {' or '.join(_KINDS)}")
    if not rows.exists():
        raise FileNotFoundError(f"rows={str(rows)!r} does not exist; give a Parquet or CSV file of new rows")


def write_predictions(model: Path, rows: Path, output: Path, **options: Any) -> pd.DataFrame:
    """Write the columns of a file's rows and after them their predictions by a saved fit; return these predictions."""
    csv, found = [each.suffix.lower() == ".csv" for each in (rows, output)], read_fit(model)
    new: pd.DataFrame = read_csv(rows) if csv[0] else pd.read_parquet(rows)
    if all(name is not None for name in new.index.names):  # such as the rows' identities, which pandas stores so
        new = new.reset_index()
    predicted: pd.DataFrame = found.predict(new, **options)
    if both := [str(name) for name in predicted.columns if name in new.columns]:
        raise ValueError(f"{rows} has a column {both[0]!r}, as the predictions do; rename it")
    table = pd.concat([new, predicted], axis=1)
    with whole_file(output) as partial:
        table.to_csv(partial, index=False) if csv[1] else table.to_parquet(partial, index=False)
    return predicted
