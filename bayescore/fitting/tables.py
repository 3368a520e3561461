r"""Tables of a fit: parameters, effects of groups, checks.

How a posterior moves with the scale of its prior, from the draws of one coreset.

A draw beta of the posterior under the prior p has under another prior p' the importance weight

.. math:: w \propto p'(\beta) / p(\beta),

Pareto smoothed. It needs neither likelihood nor rows. Where k-hat says that the weights do not do, the coreset is
sampled again under p'.

Reference: Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and likelihood sensitivity
with power-scaling, Statistics and Computing 34.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import rankdata

from bayescore.data.design import Design, Grouping
from bayescore.diagnostics.averages import check_by
from bayescore.diagnostics.loo import loo
from bayescore.diagnostics.model_check import ModelCheck, check_model
from bayescore.diagnostics.results import Level
from bayescore.fitting.parts import FitParts, described, interval_names, parameters, raw_rows, table
from bayescore.fitting.prior_draws import prior_predictive
from bayescore.fitting.route import all_rows_of, missing_was_said
from bayescore.limits import PROB
from bayescore.models.groups.effects import EffectDraws
from bayescore.models.predictor import Factor, correlations, multipliers
from bayescore.numerics.psis import full_weights
from bayescore.priors import Prior
from bayescore.priors.by_name import ByName
from bayescore.report.side_by_side import SideBySide
from bayescore.samplers.posterior import read_posterior
from bayescore.samplers.sample import sample
from bayescore.samplers.summaries import prior_summary
from bayescore.text import with_error
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RandomState, check_choice, check_positive

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
SCALE_NAMES = {"coef": "Coefficients", "odds": "Odds ratios", "ratio": "Ratios"}


class FitPriors(FitParts):
    """What a fit says about its prior; see `Fit`."""

    def prior_summary(self) -> pd.DataFrame:
        """Return the prior of each coefficient, as the design's columns and as the data's own have it.

        Returns
        -------
        DataFrame
            A row for each coefficient, columns `prior` and `in_data_units`; the two differ where columns were
            standardised. Of a `MultivariateNormal` prior the marginal ones. With groups also a row for the sd of each
            kind of effect, and for the correlations of those of one factor.

        Raises
        ------
        DataError
            If the draws are of a model of your own, whose prior is not known.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = 10.0 * rng.normal(size=(2000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=2000) > 0, random_state=1, progressbar=False)
        >>> fit.prior_summary()["in_data_units"]["Intercept"]
        "Normal(mu=0, sigma=2.5), at the columns' means"
        """
        return prior_summary(self._drawn)

    def prior_predictive(self, draws: int = 500, *, random_state: RandomState = 0) -> Any:
        """Return draws of the parameters from their prior, and of responses that these would give.

        Parameters
        ----------
        draws : int
            Draws of the prior.
        random_state : int, Generator, SeedSequence or None
            Seed.

        Returns
        -------
        InferenceData
            Groups `prior`, the parameters in units of the data, `prior_predictive` and `observed_data`, each with the
            variable ``y`` of up to 1,000 rows of the data, drawn at random: 1 for the class that is +1, 0 for the
            other; or counts, at the rows' exposures, or numbers. ``az.plot_ppc(..., group="prior")`` takes it, in
            ArviZ 1 ``az.plot_ppc_dist(..., group="prior_predictive")``.

        Raises
        ------
        DataError
            If the rows are not there, or the draws are of a model of your own.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=2000) > 0, random_state=1, progressbar=False)
        >>> fit.prior_predictive(200).prior_predictive["y"].shape
        (1, 200, 1000)
        """
        return prior_predictive(self, draws, random_state)

    def prior_sensitivity(self, scales: Sequence[float] = SCALES, *, prob: float = PROB) -> pd.DataFrame:
        """Return how the parameters move when the scale of the coefficients' prior is multiplied.

        Nothing is read or built again: the draws are weighed by the ratio of the priors, and where the weights do not
        do (Pareto k-hat), the coreset is sampled again. These draws are not certified; `with_prior` does that.

        Parameters
        ----------
        scales : list of float
            What the scales of the prior are multiplied by, each above 0.
        prob : float
            Probability of the equal-tailed interval.

        Returns
        -------
        DataFrame
            A row for each scale and parameter, in units of the data: mean, sd and interval; `shift`, how far the mean
            is from that of the fit, in sds of the fit; `by`, "weights" or "new draws"; and `pareto_k` of the weights.
            `level` is that of the row's draws: the fit's where the scale is its own, else "not certified". The table's
            own level is that of its worst row.

        Raises
        ------
        ValueError
            If a scale is not positive.
        DataError
            If the prior has no scale that is a coefficient's own, as a multivariate one, or the draws' spread is
            cluster-robust.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=300) > 0, random_state=1, progressbar=False)
        >>> table = fit.prior_sensitivity([0.1, 1.0])
        >>> table[table["parameter"] == "x0"]["shift"].abs().round().tolist()
        [2.0, 0.0]
        """
        self._check_model_spread("prior_sensitivity")
        interval_names(prob)
        if np.ndim(scales) != 1:
            raise TypeError(f"scales={scales!r} is no list; give factors of the prior's scale, such as [0.5, 1, 2]")
        factors = [check_positive(scale, f"scales[{place}]") for place, scale in enumerate(scales)]
        if not factors:
            raise ValueError("scales is empty; give factors of the prior's scale, such as [0.5, 1, 2]")
        posterior, prior = self._posterior(), self._known_prior("; see with_prior")
        names, own = parameters(posterior)
        draws = own.reshape(-1, own.shape[2]).T
        center, sd = draws.mean(axis=1), draws.std(axis=1, ddof=1)
        tables = []
        for factor in factors:
            other = rescaled(prior, factor)
            found, k = None, np.nan
            if prior.closed_form:
                weights = full_weights(other.log_density(posterior.flat) - prior.log_density(posterior.flat))
                found, k = _weighed(draws, weights.weights, prob) if weights.good else None, weights.pareto_k
            by = "new draws" if found is None else "weights"
            if found is None:
                again = parameters(read_posterior(self._drawn_again(other), "idata"))[1]
                found = described(again.reshape(-1, again.shape[2]).T, prob)
            table = pd.DataFrame({"parameter": names, **found})
            table.insert(0, "scale", factor)
            level = self.level if factor == 1.0 else str(Level.NOT_CERTIFIED)
            tables.append(table.assign(shift=(found["mean"] - center) / sd, by=by, pareto_k=k, level=level))
        whole = pd.concat(tables, ignore_index=True)
        others = (whole["level"] != self.level).any()
        return self._labelled(whole, str(Level.NOT_CERTIFIED) if others else self.level)

    def _drawn_again(self, prior: Prior) -> Any:
        """Draw from the coreset's posterior under another prior."""
        own = self._drawn.posterior
        of_groups: Any = {} if self.group_prior is None else {"group_prior": self.group_prior}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the cap of max_gradients", UserWarning)
            return sample(
                self.coreset,
                family=None if "sd_prior" in own.attrs else self.coreset.family,
                prior=prior,
                sampler=own.attrs["sampler"],
                draws=own.sizes["draw"],
                tune=int(own.attrs["tuning_steps"]),
                chains=own.sizes["chain"],
                random_seed=self._seed,
                progressbar=False,
                **of_groups,
            )


def rescaled(prior: Prior, factor: float) -> Prior:
    """Return a prior with its scales multiplied."""
    if isinstance(prior, ByName):
        return replace(prior, priors=tuple((name, rescaled(own, factor)) for name, own in prior.priors))
    names = [name for name in prior.in_units if name in prior.positive]
    if not names:
        raise DataError(
            f"prior={prior} has no scale that is a coefficient's own; give the fit another, or see with_prior"
        )
    return prior.replaced(**{name: _times(getattr(prior, name), factor) for name in names})


def _times(value: Any, factor: float) -> Any:
    return tuple(factor * each for each in value) if isinstance(value, tuple) else factor * value


def _weighed(draws: FloatArray, weights: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of weighed draws, shape (K, S), by the names of `described`."""
    mean = draws @ weights
    sd = np.sqrt(np.maximum((draws - mean[:, None]) ** 2 @ weights, 0.0))
    low, high, tail = interval_names(prob)
    ends = [_quantiles(draws, weights, p) for p in (tail, 1.0 - tail)]
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def _quantiles(draws: FloatArray, weights: FloatArray, p: float) -> FloatArray:
    order = np.argsort(draws, axis=1)
    middle = np.cumsum(weights[order], axis=1) - 0.5 * weights[order]
    rows = zip(middle, np.take_along_axis(draws, order, axis=1), strict=True)
    return np.array([np.interp(p, at, values) for at, values in rows])


RANK_DRAWS = 400  # draws that ranks are of


class FitTables(FitPriors):
    """What a fit says in tables; see `Fit`."""

    def _parameters(self, scale: str, prob: float) -> pd.DataFrame:
        """Return the table of parameters, on the scale "coef", "odds" or "ratio"."""
        posterior = self._posterior()
        names, draws = parameters(posterior)
        if scale != "coef":
            ratio = posterior.family.ratio
            if ratio is None or (scale == "odds" and ratio != "odds ratio"):
                raise DataError(
                    f"scale={scale!r}, but the family is {posterior.family.name!r}, whose coefficients are no log odds "
                    f"ratios; see scale={'response' if ratio is None else 'ratio'!r}"
                )
            kept = [d for d in range(len(posterior.features)) if d != self.coreset.design.constant]
            self._check_beside_intercept(scale, kept)
            names, draws = [names[d] for d in kept], np.exp(draws[..., kept])
        return self._labelled(table(names, draws, prob))

    def table(
        self,
        *others: Any,
        format: str = "text",
        names: Sequence[str] | None = None,
        scale: str = "coef",
        prob: float = PROB,
    ) -> str:
        """Return a table of coefficients, of several fits side by side, for a terminal, a page or a paper.

        Parameters
        ----------
        *others : Fit
            Fits whose columns follow this one's.
        format : {"text", "markdown", "html", "latex"}
            Names are escaped for it. LaTeX is a tabular that takes no package.
        names : list of str, optional
            Of the fits; by default (1), (2), ...
        scale : {"coef", "odds", "ratio"}
            As in `summary`.
        prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        str
            Mean and interval of each parameter, to two digits of its sd. Below them stand family, numbers of
            observations and groups, and the level. Where the certificate has it, the expected log predictive density of
            new rows or new groups, elpd, does so too, with its standard error.

        Raises
        ------
        TypeError, ValueError, DataError
            If another is no fit, or names are not as many; as `summary` does.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> print(fit.table(format="markdown").splitlines()[3])
        | x0 | 1.010 (0.939, 1.083) |
        """
        if wrong := [other for other in others if not isinstance(other, FitTables)]:
            raise TypeError(f"others has a {type(wrong[0]).__name__}; give fits")
        fits = (self, *others)
        called = [f"({k})" for k in range(1, len(fits) + 1)] if names is None else list(map(str, names))
        if len(called) != len(fits):
            raise ValueError(f"names has {len(called)} entries for {len(fits)} fits; give one for each")
        check_choice(scale, "scale", tuple(SCALE_NAMES))
        coefficients, others_named, first, groups, last = (
            {name: [own.get(name, "") for own in part] for name in dict.fromkeys(key for own in part for key in own)}
            for part in zip(*((*fit._estimates(scale, prob), *fit._numbers()) for fit in fits), strict=True)
        )
        blocks = [coefficients, others_named, {**first, **groups, **last}]
        return SideBySide(called, blocks, f"{SCALE_NAMES[scale]}: mean and {100.0 * prob:g}% interval").to(format)

    def _estimates(self, scale: str, prob: float) -> tuple[dict[str, str], dict[str, str]]:
        """Return mean and interval of each coefficient and other parameter as text, to two digits of its sd."""
        low, high, _ = interval_names(prob)
        found = self._parameters(scale, prob)[["mean", "sd", low, high]]
        cells: tuple[dict[str, str], dict[str, str]] = {}, {}
        for name, (mean, sd, *ends) in zip(found.index, found.to_numpy().tolist(), strict=True):
            shown = [with_error(value, sd)[0] for value in (mean, *ends)]
            cells[name not in self.coreset.feature_names][str(name)] = f"{shown[0]} ({shown[1]}, {shown[2]})"
        return cells

    def _numbers(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """Return family and observations, groups of each factor, and elpd and level, by what they are called."""
        core, found = self.coreset, self.certificate
        n = f"{core.n_observations or core.n_total:,}"
        last = {}
        for name, kind in (("elpd", "loo"), ("elpd of new groups", "logo")):
            value, se = (getattr(found, f"elpd_{kind}{end}") for end in ("", "_se"))
            last[name] = f"{value:,.1f} ({se:,.1f})".replace("-", "−") if np.isfinite(value) else ""
        groups = {f"Groups of {own.name}": f"{len(own):,}" for own in core.groups}
        family = core._family_asked.replace("_", " ")
        return {"Family": family, "Observations": n}, groups, {**last, "Draws": self._heading}

    @staticmethod
    def _check_beside_intercept(scale: str, there: Sequence[Any]) -> None:
        """Raise unless there are coefficients, or columns, that a scale is for."""
        if not len(there):
            raise DataError(
                f"scale={scale!r} is for coefficients other than the intercept, and the fit has none; give scale='coef'"
            )

    def effects(
        self, factor: str | None = None, *, effect: str = "1", draws: Sequence[Any] | None = None, prob: float = PROB
    ) -> Any:
        """Return the effects of groups on the linear predictor, with their ranks.

        Parameters
        ----------
        factor : str, optional
            Grouping factor; by default the only one.
        effect : str
            "1" for the intercept, or the column whose slope varies.
        draws : list of levels, optional
            Return the draws of these groups in place of the table.
        prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        DataFrame or DataArray
            A row for each group: mean, sd, interval, and the mean and interval of its rank, 1 for the smallest effect;
            or draws, dims chain, draw and the factor's name.

        Raises
        ------
        DataError
            If there is no such factor, effect or level.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.choice(list("abcdef"), 4000)})
        >>> rows["y"] = rows["x"] + (rows["g"] == "c") + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> fit.effects("g")["mean"].idxmax()
        'c'
        >>> fit.effects("g", draws=["c"]).dims
        ('chain', 'draw', 'g')
        """
        own = self._factor(factor)
        posterior, A = self._posterior(), self.coreset.design.raw_effects_map(own)
        if effect not in own.effects:
            raise DataError(f"effect={effect!r} does not vary by {own.name!r}; these do: {', '.join(own.effects)}")
        k = own.effects.index(effect)
        effects, known = Factor.of(own, posterior.variables).effects, None
        if draws is None and isinstance(effects, EffectDraws):  # of too many groups to keep
            known = effects.summary()
        if draws is not None:
            if unknown := [level for level in draws if level not in own.levels]:
                raise DataError(f"draws names {unknown[0]!r}, which is no level of {own.name!r}")
            codes = np.array([own.levels.index(level) for level in draws], dtype=np.int64)
            values = (effects[:, codes] @ A[k]).reshape(*posterior.draws.shape[:2], -1)
            dims, told = ("chain", "draw", own.name), {"level": self.level}
            return xr.DataArray(values, dims=dims, coords={own.name: list(draws)}, attrs=told)
        u = effects[:] @ A[k] if known is None else np.asarray(known.draws, dtype=np.float64)  # (S, G)
        ranks = rankdata(u[:: max(1, len(u) // RANK_DRAWS)], axis=1)
        low, high, tail = interval_names(prob)
        ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0)
        columns = described(u.T, prob)
        if known is not None:
            columns |= {"mean": known.mean, "sd": known.sd}
        frame = pd.DataFrame(columns, index=pd.Index(own.levels, name=own.name))
        rank = {"rank": ranks.mean(axis=0), f"rank {low}": ends[0], f"rank {high}": ends[1]}
        return self._labelled(frame.assign(**rank))

    def _factor(self, name: str | None) -> Grouping:
        groups = self.coreset.groups
        found = [own for own in groups if name in (None, own.name)]
        if len(found) != 1:
            known = ", ".join(repr(own.name) for own in groups) or "none"
            raise DataError(f"factor={name!r}: the grouping factors of the fit are {known}; name one")
        self._posterior().check_tells_groups()
        return found[0]

    def icc(self, data: Any = None, *, prob: float = PROB) -> pd.DataFrame:
        r"""Return, for each grouping factor g, which share of the variance of the latent response its effects are.

        .. math:: \rho_g = \frac{\bar s_g}{\sum_h \bar s_h + v}, \qquad
                  \bar s_g = \frac{1}{n} \sum_n z_n \cdot \Sigma_g z_n

        z_n the row's columns whose effects vary, 1 for an intercept, \Sigma_g the covariance of the effects, and v the
        variance of the latent response, pi^2 / 3 of a logistic regression. Of ``(1 | g)`` it is
        sigma^2 / (sigma^2 + v), the correlation of two rows of one group; of slopes the mean over rows (Johnson 2014).

        Parameters
        ----------
        data : rows, optional
            Rows over which slopes are averaged; by default a sample of the rows of the fit.
        prob : float
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A row `icc_g` for each factor.

        Raises
        ------
        DataError
            If the fit has no groups, or its family no latent response, as counts; or slopes, and the rows are gone.

        References
        ----------
        Johnson (2014), Extension of Nakagawa and Schielzeth's R2 GLMM to random slopes models, Methods in Ecology and
        Evolution 5, 944-946.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.integers(0, 30, 4000)})
        >>> rows["y"] = rows["x"] + rng.normal(size=30)[rows["g"]] + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> bool(0.1 < fit.icc()["mean"]["icc_g"] < 0.5)
        True
        """
        source = self._used["posterior"]
        names = [str(name) for name in source.data_vars if str(name).startswith("icc_")]
        if names:
            draws = np.stack([source[name].transpose("chain", "draw").values for name in names], axis=2)
            return self._labelled(table(names, draws, prob))
        posterior, groups = self._posterior(), self.coreset.groups
        posterior.check_tells_groups()
        latent = posterior.family.latent_variance
        if not groups or latent is None:
            raise DataError("the fit has no intraclass correlation: it is of group terms and a latent response")
        slopes = any(tuple(own.effects) != ("1",) for own in groups)
        rows = raw_rows(self, data).designed() if slopes else None
        shares = [_variance_of(own, self.coreset.design, posterior.variables, rows) for own in groups]
        total = sum(shares) + latent
        draws = np.stack([own / total for own in shares], axis=1).reshape(*posterior.draws.shape[:2], -1)
        return self._labelled(table([f"icc_{own.name}" for own in groups], draws, prob))

    def check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Hold predictions against labels in bins of rows of like prediction, or by the values of columns.

        Parameters
        ----------
        data, y : rows and their labels, optional
            As given to `fit`; by default a sample of the rows of the fit, to which it is kinder than new ones are.
        by : str or list of str, optional
            Columns that part the rows, as in `average_predictions`: what the model does not have shows by a column that
            is not in the formula.

        Returns
        -------
        DataFrame
            A row for each bin, or each value of the columns: the mean prediction, the share of the class that is +1 (of
            counts the rate, events by exposure), and the 95% interval of the share that the model would give. `outside`
            says whether the share is beyond it, as 6 of 100 are by chance.

        Raises
        ------
        DataError
            If the rows are not there, or do not fit.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> int(fit.check()["outside"].sum()) < 4
        True
        """
        labels, found = self._checked(data, y, check_by(by))
        outside = (found.observed < found.low) | (found.observed > found.high)
        low, high, _ = interval_names(PROB)
        columns = {"predicted": found.predicted, "observed": found.observed, low: found.low, high: found.high}
        return self._labelled(pd.DataFrame({**labels, **columns, "outside": outside}))

    def _checked(self, data: Any, y: Any, by: tuple[str, ...]) -> tuple[dict[str, list[Any]], ModelCheck]:
        """Return the values of columns `by` that part rows, and the check of the parts, or of bins."""
        known = self
        if data is not None:
            kept = self._given or all_rows_of(self.coreset, data, {}, progressbar=False)
            known = replace(self, _given=replace(kept, data=data, y=y, known=True))
        rows = raw_rows(known, None, others=data is not None, by=by)
        found = check_model(self._posterior(), rows.designed(), rows.events, rows.parts)
        places = [] if found.groups is None else found.groups.tolist()
        return {name: [own[place] for place in places] for name, own in rows.labels.items()}, found

    def loo(self) -> Any:
        """Return the leave-one-out predictive density of each row of the data, which `arviz.compare` takes.

        It takes two passes and 0.1 to 0.4 ms a row: for more than some 1e5 rows see `loo_compare`, and
        ``certificate.elpd_loo`` of one model. In a model with groups a row's density is conditional, given the effect
        of its group, as in arviz, bambi and brms; for groups left out whole see ``certificate.elpd_logo``.

        Returns
        -------
        ELPDData
            The installed ArviZ's, with values and k-hat of each row, in the order of the data. A count is left out with
            its exposure.

        Raises
        ------
        DataError
            If the rows have weights, which ArviZ does not know, or are not there, or the draws are too far from the
            full data's posterior, or their spread is cluster-robust.

        References
        ----------
        Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation, Statistics and Computing 27.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> bool((fit.loo().pareto_k < 0.7).all())
        True
        """
        self._check_model_spread("loo")
        given = self._rows_given
        with missing_was_said():
            return loo(self._used, self.coreset, given.data, given.y, **given.told())


def _variance_of(own: Grouping, design: Design, variables: Mapping[str, Any], rows: WeightedData | None) -> FloatArray:
    """Return the variance of the linear predictor that a factor's effects make, averaged over rows, at draws (S,)."""
    q = len(own.effects)
    sd = np.asarray(variables[f"sigma_{own.name}"], dtype=np.float64).reshape(-1, q)
    if rows is None:
        return sd[:, 0] ** 2
    Z = multipliers(rows.X, design, own)
    second = (rows.weights[:, None] * Z).T @ Z / rows.weights.sum()
    return np.asarray(np.einsum("si,sij,sj,ij->s", sd, correlations(own, variables), sd, second))
