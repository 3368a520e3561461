"""`Fit`: coreset, draws, certificate and story in one object, which answers questions in units of the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pandas as pd

from bayescore.compat import as_arviz
from bayescore.coresets.build import all_rows
from bayescore.data.coreset import Coreset
from bayescore.data.formula_design import formula_of
from bayescore.diagnostics.averages import AveragedRows, averaged_rows, check_by
from bayescore.diagnostics.loo import loo
from bayescore.families.family import Varying, check_family
from bayescore.fitting import predictions, tables
from bayescore.fitting.clusters import check_lonely, cluster_robust, refuse_strata
from bayescore.fitting.earlier import EarlierRows
from bayescore.fitting.files import save_fit
from bayescore.fitting.parts import check_model_spread, interval_names, known_prior, labelled, parameters, rows_of_fit
from bayescore.fitting.prior import SCALES, Pull, check_priors, prior_predictive, prior_sensitivity, pull_of
from bayescore.fitting.route import (
    FitOptions,
    Given,
    Route,
    Step,
    build_warned,
    check_same_rows,
    route_of_draws,
    usable_draws,
)
from bayescore.fitting.student_t import size_route_type
from bayescore.fitting.tables import Overview, data_facts, overview
from bayescore.fitting.update import check_update, route_of_update
from bayescore.limits import PROB
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior
from bayescore.report.certify import Certificate
from bayescore.samplers.groups import group_prior_of
from bayescore.samplers.posterior import Posterior, in_data_units, is_between_fits, number_names, read_posterior
from bayescore.samplers.predict import population_shares
from bayescore.samplers.sample import sample
from bayescore.samplers.summaries import prior_summary
from bayescore.text import see
from bayescore.types import FloatArray
from bayescore.validation import DataError, RandomState, check_choice, check_integer, check_positive, one_seed, warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """What `fit`, `read_fit` and `Fit.from_draws` return: it answers questions about the posterior.

    Parameters
    ----------
    coreset : Coreset
        The rows that were sampled.
    certificate : Certificate
        The verdict on the draws, by all rows.
    story : tuple of Step
        What was done, in order.
    prior : prior, dict of str to prior, or None
        As given to `fit`; None for the default.

    Attributes
    ----------
    idata : InferenceData
        The draws to use.
    level : str
        "certified", "corrected" or "not certified".
    formula : str or None
        The formula, a dot in it spelled out.
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

    _instead_of_ratios: ClassVar[str] = "scale='response'"  # what to see where coefficients are no logs of ratios

    coreset: Coreset
    _drawn: Any  # the coreset's posterior as it was drawn; `idata` has what is to be used
    certificate: Certificate
    story: tuple[Step, ...]
    prior: Prior | Mapping[str, Prior] | None = None
    _seed: int = 0  # repeats the fit
    _max_seconds: float = 600.0  # as given to `fit`
    # the rows and the roles of their columns; None of a fit of a coreset that misses a part of them, or that was read
    # from files, or updated, without all rows
    _given: Given | None = None
    # sums over the rows and a sample of up to 20,000 of them, by which updates do without the rows; each update adds
    # those of its rows, and a coreset that lost nothing needs none
    _kept: tuple[EarlierRows, ...] = ()
    _robust: Any = None  # draws with cluster-robust spread, or pooled over imputed tables
    _options: FitOptions = field(default_factory=FitOptions)  # `with_prior` takes all of them again, `update` most

    @property
    def level(self) -> str:
        """The verdict: "certified", "corrected" or "not certified"."""
        return str(self.certificate.level)

    @cached_property
    def idata(self) -> Any:
        """The draws to use, as InferenceData whose `posterior` is in units of the data's own columns.

        `coef` has each coefficient once; sds, correlations and effects of groups follow. What was sampled, `beta` of
        the columns as the model has them, is the group `design_posterior`, by which `certify` and others go.
        """
        return as_arviz(in_data_units(self._used, self.coreset.design))

    @property
    def group_prior(self) -> GroupPrior | None:
        """The prior of the sds of groups' effects; None without groups, and of a model of your own."""
        return group_prior_of(self._drawn.posterior.attrs)

    @property
    def spread(self) -> str:
        """Whose spread the draws have, as "cluster-robust by 60 clusters of 'district'"; empty if the model's own."""
        return "" if self._robust is None else str(self._robust.posterior.attrs["spread"])

    @property
    def formula(self) -> str | None:
        """The formula, if the fit has one."""
        return formula_of(self.coreset.design)

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd and interval of each parameter, in units of the data.

        Parameters
        ----------
        scale : {"coef", "odds", "rate", "ratio", "response"}
            Coefficients, with the sds and correlations of groups' effects; odds ratios for one unit more, or of a level
            against the first, of a logistic regression; rate ratios of counts. By "ratio" whichever of the two the
            family has, or hazard ratios (cloglog), time ratios (Weibull), ratios of means (gamma). By "response" what
            each column of the data does to the probability, averaged over all rows: `comparisons` of factors and 0/1
            columns, `slopes` of others, by a pass for each.
        prob : float
            Probability of the equal-tailed interval, whose ends have their percentages for names.

        Returns
        -------
        DataFrame
            A row for each parameter, also with effective sample sizes and R-hat; or for each column and contrast. The
            level is in ``attrs["level"]``.

        Raises
        ------
        ValueError, DataError
            If `scale` is unknown, or is "odds", "rate" or "ratio" of a family whose coefficients are no such logs, or
            "response" and the rows are not there.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.summary(scale="odds")["mean"].round(1).to_dict()
        {'x0': 2.7}
        >>> fit.summary(scale="response")[["contrast", "mean"]].round(2).values.tolist()
        [['dY/dX', 0.21]]
        """
        check_choice(scale, "scale", ("coef", "odds", "rate", "ratio", "response"))
        if scale != "response":
            return tables.parameter_table(self, scale, prob)
        names, core = self.coreset.design.raw_names, self.coreset
        tables.check_slopes(scale, names)
        interval_names(prob)
        rows = rows_of_fit(self)
        each = [predictions.effect_of(rows, name).drawn(rows, (), 1000, core).table(prob) for name in names]
        index = pd.Index(np.repeat(names, [len(one) for one in each]), name="column")
        return labelled(self, pd.concat(each).set_index(index))

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
        scale : {"coef", "odds", "rate", "ratio"}
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
        if wrong := [other for other in others if not isinstance(other, Fit)]:
            raise TypeError(f"others has a {type(wrong[0]).__name__}; give fits")
        return tables.side_by_side((self, *others), names, scale, prob, format)

    def predict(
        self,
        new: Any,
        *,
        kind: str = "mean",
        offset: Any = None,
        groups: Any = None,
        exposure: Any = None,
        new_groups: str = "sample",
        prob: float = PROB,
        random_state: RandomState = None,
        random_seed: RandomState = None,
    ) -> Any:
        """Return the posterior of P(y = +1 | x), or of the rate of counts or mean of numbers, of new rows.

        Parameters
        ----------
        new : data frame or array, n rows
            Raw features, as given to `fit`.
        kind : {"mean", "response", "draws"}
            Mean, sd and interval of each row's probability; draws of its label; or draws of its probability. Of counts
            the rate, and counts of an exposure of 1; of numbers the mean, and numbers with noise.
        offset, groups : array or str, optional
            Offsets and groups of the rows, or their columns; by default the columns of the fit's names.
        exposure : array or str, optional
            Of counts, exposures of the rows or their column: means are rates times exposures, and counts are drawn at
            these. Without it all figures are of an exposure of 1, whatever exposures the fit's rows had.
        new_groups : {"sample", "average"}
            With "sample" a group that the fit does not know has effects drawn from N(0, sigma^2), one draw with each
            of the posterior; rows of one new group share them. With "average" p is averaged over these effects.
        prob : float
            Probability of the equal-tailed interval.
        random_state, random_seed : int, Generator, SeedSequence or None
            Seed of the effects of new groups, and of labels, by either name; 0 by default.

        Returns
        -------
        DataFrame or DataArray
            A data frame of n rows; or draws of shape (S, n), dims sample and row, of labels as bool, True for the class
            that is +1, of counts or numbers. ``attrs["level"]`` is the level.

        Raises
        ------
        DataError, ValueError
            If rows lack a column, or have a level that the fit does not know.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.predict(np.array([[0.0], [2.0]]))["mean"].round(1).tolist()
        [0.5, 0.9]
        >>> fit.predict(np.array([[0.0], [2.0]]), kind="draws").shape
        (4000, 2)
        """
        seed = one_seed(random_state, random_seed, default=0)
        asked: dict[str, Any] = {"new_groups": new_groups, "prob": prob, "seed": seed}
        return predictions.predict(self, new, kind, roles=(offset, groups, exposure), **asked)

    def poststratify(
        self,
        cells: Any,
        by: str | Sequence[str] = (),
        *,
        weights: str,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return the share of the class that is +1, or of each ordered category, in a population or its parts (MRP).

        Parameters
        ----------
        cells : data frame or Arrow table
            A row for each cell of the population: the raw columns of the fit, its groups, its offset where it has one.
        by : str or list of str, optional
            Columns of `cells`, of any kind, that part the population; without it there is one share.
        weights : str
            Column of `cells` with their sizes in the population.
        draws : bool
            Return the draws behind the table.
        prob : float
            Probability of the equal-tailed intervals.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame or DataArray
            A row for each part: mean, sd and interval of its share, and its `weight`. Or draws, dims chain, draw and
            the table's index.

        Raises
        ------
        DataError
            If there are no cells, or they lack a column, miss an entry, have a level that the fit does not know, or
            weights that are not positive.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"old": rng.integers(0, 2, 2000), "county": rng.choice(list("abcdef"), 2000)})
        >>> rows["vote"] = rows["old"] + rng.logistic(size=2000) > 0
        >>> fit = bc.fit("vote ~ old + (1 | county)", rows, random_state=1, progressbar=False)
        >>> census = pd.DataFrame({"old": [0, 1], "county": ["a", "a"], "n": [300, 100]})
        >>> fit.poststratify(census, by="county", weights="n")["mean"].round(1).to_dict()
        {'a': 0.6}
        >>> shares = fit.poststratify(census, by="old", weights="n", draws=True)
        >>> bool((shares.sel(old=1) > shares.sel(old=0)).mean() > 0.99)
        True
        """
        interval_names(prob)
        shares = self._poststratified(cells, by, weights, max_draws)
        if draws:
            return predictions.by_chain(self, shares, max_draws)
        return labelled(self, shares.figures(prob).set_axis(pd.Index([]) if shares.parts is None else shares.parts))

    def _poststratified(
        self, cells: Any, by: str | Sequence[str], weights: str, max_draws: int
    ) -> predictions.AverageDraws:
        """Return the shares of a population's parts at draws."""
        by_part = population_shares(self._used, self.coreset, cells, by, weights=weights, max_draws=max_draws)
        return predictions.AverageDraws(by_part.shares[None], None, by_part.parts, {"weight": by_part.weight})

    def average_predictions(
        self,
        *,
        by: str | Sequence[str] | None = None,
        variables: str | None = None,
        data: Any = None,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return average probabilities of the rows, of parts of them, or of all as if they had each level of a factor.

        Parameters
        ----------
        by : str or list of str, optional
            Columns that part the rows, an average for each of their values: any column of text or of up to 20 whole
            numbers, also one that the formula does not have, or a grouping factor. Rows that miss an entry of it are an
            error, or where the fit has ``missing="drop"`` left out.
        variables : str, optional
            Raw column that is set to each of its levels in turn, in all rows.
        data : rows, optional
            Rows to average over: raw ones in a data frame or an array, each of which counts once, or a file or another
            source of any kind that `fit` takes. By default all rows of the fit, with their weights.
        draws : bool
            Return the draws behind the table.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame or DataArray
            A row for each average; mean, sd and interval over the posterior, and `sampling_se`, the standard error
            of a sample of the rows; 0 if each row was evaluated. Or draws, dims chain, draw and
            those of the table's first columns: several columns `by` are the levels of one dimension, `part`.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or it has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.average_predictions(by="device")[["device", "mean"]].round(1).values.tolist()
        [['phone', 0.3], ['tablet', 0.5]]
        """
        if variables is not None and variables in check_by(by):
            raise DataError(f"by={by!r} has variables={variables!r}, which is set in all rows; leave it out of one")
        asked = partial(predictions.predictions_of, variable=variables)
        return self._average(variables, asked, by, data, draws=draws, prob=prob, max_draws=max_draws)

    def comparisons(
        self,
        variable: str,
        *,
        against: Any = "first",
        comparison: str = "difference",
        by: str | Sequence[str] | None = None,
        data: Any = None,
        step: float = 1.0,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return how much the average probability changes with a column, all else as it is in the rows.

        Parameters
        ----------
        variable : str
            Raw column: levels of a factor against each other, 1 against 0, or `step` more of a column of numbers.
        against : level, "first" or "pairwise"
            Level of a factor that all others are compared with, by default its reference in the formula; or each level
            with all before it.
        comparison : {"difference", "ratio", "odds"}
            Difference or ratio of the two average probabilities, or ratio of their odds.
        by, data
            As in `average_predictions`.
        step : float
            Change of a column of numbers, in its own units. A row from which it leads out of a term's domain, as beyond
            the bounds of a spline, is taken from a step before, so that the step ends where the row is.
        draws, prob, max_draws
            As in `average_predictions`.

        Returns
        -------
        DataFrame or DataArray
            As of `average_predictions`, a row for each contrast and part, with the posterior probability ``P(>0)`` that
            a difference is above 0, or ``P(>1)`` a ratio above 1.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or `by` has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.comparisons("device")[["contrast", "mean"]].round(2).values.tolist()
        [['tablet - phone', 0.2]]
        >>> better = fit.comparisons("device", draws=True)
        >>> bool((better.sel(contrast="tablet - phone") > 0.1).mean() > 0.99)
        True
        """
        check_choice(comparison, "comparison", tuple(predictions.COMPARISONS))
        check_positive(step, "step")
        ways = {"variable": variable, "against": against, "step": step, "comparison": comparison}
        asked = partial(predictions.comparisons_of, **ways)
        return self._average(variable, asked, by, data, draws=draws, prob=prob, max_draws=max_draws)

    def slopes(
        self,
        variable: str,
        *,
        by: str | Sequence[str] | None = None,
        data: Any = None,
        draws: bool = False,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> Any:
        """Return the average derivative of the probability by a column of numbers, through all terms that have it.

        Parameters
        ----------
        variable : str
            Raw column of numbers.
        by, data, draws, prob, max_draws
            As in `average_predictions`.

        Returns
        -------
        DataFrame or DataArray
            As of `comparisons`.

        Raises
        ------
        DataError, ValueError
            As `comparisons` does; or if the column is a factor, or a term has no derivative in some row.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.slopes("x0")["mean"].round(2).tolist()
        [0.21]
        """
        asked = partial(predictions.slopes_of, variable=variable)
        return self._average(variable, asked, by, data, draws=draws, prob=prob, max_draws=max_draws)

    def _average(
        self,
        variable: str | None,  # noqa: ARG002  # that `asked` changes, for fits whose rows are not as they were given
        asked: Callable[[AveragedRows], predictions.Contrasts],
        by: str | Sequence[str] | None,
        data: Any,
        *,
        draws: bool,
        prob: float,
        max_draws: int,
    ) -> Any:
        """Return contrasts averaged over rows, as a table or as draws."""
        interval_names(prob)
        check_integer(max_draws, "max_draws", low=1)
        names, core = check_by(by), self.coreset if data is None else None
        rows = rows_of_fit(self, names) if data is None else averaged_rows(self._posterior(), data, by=names)
        averages = asked(rows).drawn(rows, names, max_draws, core)
        return predictions.by_chain(self, averages, max_draws) if draws else labelled(self, averages.table(prob))

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
        return tables.effects_of_groups(self, factor, effect, draws, prob)

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
        return tables.intraclass_correlations(self, data, prob)

    def check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Hold predictions against labels in bins of rows of like prediction, or by the values of columns.

        Parameters
        ----------
        data, y : rows and their labels, optional
            As given to `fit`; by default the rows of the fit, to which it is kinder than new ones are. Of more than
            20,000 rows, given or not, a random sample of that size is checked.
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
        values, check = tables.check_of_rows(self, data, y, check_by(by))
        outside = (check.observed < check.low) | (check.observed > check.high)
        low, high, _ = interval_names(PROB)
        columns = {"predicted": check.predicted, "observed": check.observed, low: check.low, high: check.high}
        return labelled(self, pd.DataFrame({**values, **columns, "outside": outside}))

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
        check_model_spread(self, "loo")
        given = self._rows_given
        with build_warned():
            return loo(self._used, self.coreset, given.data, given.y, **given.role_arguments())

    def inference_data(
        self,
        data: Any = None,
        y: Any = None,
        *,
        max_draws: int = 1000,
        random_state: RandomState = None,
        random_seed: RandomState = None,
    ) -> Any:
        """Return draws, log-likelihoods and replicated responses of rows, as ArviZ's functions take them.

        For `az.loo`, `az.plot_ppc` and the like: `Fit.loo` and `Fit.check` answer the same of all rows without ArviZ.

        Parameters
        ----------
        data, y : rows and their responses, optional
            As given to `fit`; each counts once. By default the rows of the fit, or a sample of 20,000 if they
            are more. Or rows of ``all_rows(..., design=fit.coreset.design)``, all of them.
        max_draws : int
            Draws used, evenly spaced; 9 bytes of memory for each of them and each row, of numbers 16.
        random_state, random_seed : int, Generator, SeedSequence or None
            Seed of the replicated responses, by either name, kept in the group's attributes; 0 by default.

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
        check_model_spread(self, "inference_data")
        seed = one_seed(random_state, random_seed, default=0)
        return predictions.with_predictive(self, data, y, max_draws=max_draws, random_state=seed)

    def prior_summary(self) -> pd.DataFrame:
        """Return the prior of each coefficient, as the design's columns and as the data's own have it.

        Returns
        -------
        DataFrame
            A row for each coefficient, columns `prior` and `in_data_units`; the two differ where columns were
            standardised. A `MultivariateNormal` prior has its marginal ones. With groups also a row for the sd of each
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

    def prior_sensitivity(self, scales: Sequence[float] = SCALES, *, prob: float = PROB) -> pd.DataFrame:
        """Return how the parameters move when the scale of the coefficients' prior is multiplied.

        Nothing is read or built again: the draws are weighted by the ratio of the priors, and are as near to all rows'
        posterior as those of the fit. If these weights fail (Pareto k-hat), the coreset is sampled again. Such draws
        are not certified; `with_prior` does that. The scale of the intercept's prior is multiplied, too: where events
        are rare that may move all coefficients.

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
            `level` is the fit's where its draws are weighted, of new draws "not certified". The table's own level is
            that of its worst row.

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
        return prior_sensitivity(self, scales, prob)

    def prior_predictive(
        self, draws: int = 500, *, random_state: RandomState = None, random_seed: RandomState = None
    ) -> Any:
        """Return draws of the parameters from their prior, and of responses that these would give.

        Parameters
        ----------
        draws : int
            Draws of the prior.
        random_state, random_seed : int, Generator, SeedSequence or None
            Seed, by either name; 0 by default.

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
        seed = one_seed(random_state, random_seed, default=0)
        return prior_predictive(self, draws, seed)

    def plot(
        self, variable: str | None = None, *, by: str | None = None, data: Any = None, prob: float = PROB
    ) -> "Axes":
        """Draw the coefficients in the data's units, or how the probability changes with a column.

        Parameters
        ----------
        variable : str, optional
            Raw column; by default all coefficients but the intercept are drawn, with their figures on the right. All
            other columns are at their means, factors at their most frequent level, and groups averaged over, as the
            text below the axis says. Ticks at the bottom are rows.
        by : str, optional
            Another column or grouping factor: a line for each of its levels, of numbers with more than 5 values for the
            10%, 50% and 90% quantiles.
        data : data frame, optional
            Rows that give the range and the values of other columns; by default a sample of all rows.
        prob : float
            Probability of the intervals.

        Returns
        -------
        Axes
            Of a new figure. The level stands in its title.

        Raises
        ------
        DataError
            If there is no such column, `by` has more than 12 levels, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 2))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.plot().get_xlabel()
        'coefficient: mean and 95% interval, log odds'
        >>> axes = fit.plot("x0")
        >>> axes.get_xlabel(), axes.texts[-1].get_text()
        ('x0', 'held at: x1 = 0.00115 (mean)')
        """
        from bayescore.fitting import pictures

        interval_names(prob)
        if variable is not None:
            return pictures.curves(self, variable, by, data, prob)
        if by is not None:
            raise DataError(f"by={by!r} is for a curve: name its column too, fit.plot(variable, by={by!r})")
        return pictures.forest(self, prob)

    def plot_check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> Any:
        """Draw predictions against what was observed, as `check` has them.

        Next to the calibration are the predictions for rows of either class; for counts a rootogram, how many rows have
        each count and how many the model expects; for numbers their histogram and the model's.

        Parameters
        ----------
        data, y, by
            As in `check`; with `by` there is one picture, a line for each part of the rows.

        Returns
        -------
        Axes or array of two Axes
            Of a new figure.

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
        >>> calibration, classes = fit.plot_check()
        >>> calibration.get_xlabel()
        'predicted probability'
        """
        from bayescore.fitting import pictures

        return pictures.plot_check(self, data, y, check_by(by))

    def plot_effects(self, factor: str | None = None, *, effect: str | None = None) -> "Axes":
        """Draw mean and 95% interval of each group's effect, sorted, in units of the data.

        Parameters
        ----------
        factor : str, optional
            Grouping factor; by default the only one.
        effect : str, optional
            "1" for the intercept, the default where it varies, or the column whose slope does.

        Returns
        -------
        Axes
            Of a new figure.

        Raises
        ------
        DataError
            If there is no such factor or effect.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.choice(list("abcdef"), 4000)})
        >>> rows["y"] = rows["x"] + (rows["g"] == "c") + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> fit.plot_effects().get_xlabel()
        'effect of g: mean and 95% interval, log odds'
        """
        from bayescore.fitting import pictures

        return pictures.plot_effects(self, factor, effect)

    def plot_shrinkage(self, factor: str | None = None) -> "Axes":
        r"""Draw the effect of each group against what its rows alone say: how far partial pooling pulls.

        Across stands the log odds (probit: the probit; counts: the log rate) of the fit's event among the rows of a
        group, half an event and half a row more, minus that of all rows. Up stands the effect of the group, of slopes
        that vary where their columns are at their means. Covariates that differ between groups move points too, and
        effects given covariates are larger than those without (Gelman and Hill 2007, section 12.2).

        Parameters
        ----------
        factor : str, optional
            Grouping factor; by default the only one.

        Returns
        -------
        Axes
            Of a new figure.

        Raises
        ------
        DataError
            If there is no such factor, no intercept that varies by it, or the response is a number, which has no share.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.choice(list("abcdef"), 4000)})
        >>> rows["y"] = rows["x"] + (rows["g"] == "c") + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> fit.plot_shrinkage().get_ylabel()
        'effect of g: mean and 95% interval, log odds'
        """
        from bayescore.fitting import pictures

        return pictures.plot_shrinkage(self, factor)

    def report(self, path: str | Path) -> None:
        """Write one HTML page: the verdict first, then data, coefficients, effects, priors, the model's fit, the story.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> fit.report("report.html")  # doctest: +SKIP
        """
        from bayescore.fitting.pictures import write_page  # pages need Matplotlib, which is slow to import

        write_page(self, path)

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
    ) -> "Fit":
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
        return fit_of_route(route_of_draws(idata, core, (data, y), roles, model=model, progressbar=progressbar))

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
    ) -> "Fit":
        """Return the fit of the rows so far and of new ones, without reading the old ones.

        The new rows become a coreset in the same design, about the posterior so far. It is joined with the old coreset,
        and draws are made again. A prior that was given stays, and so does the default one of the first rows; of
        numbers the default one follows from all rows. The certificate compares the draws with the new rows, and with
        sums and a sample of up to 20,000 of the old rows that the fit kept. If the old coreset no longer represents its
        rows, draws are "corrected", or with groups "not certified". They are also "not certified" if the sample has too
        little information about the old rows: then give all rows as `data`.

        Parameters
        ----------
        new : rows, optional
            More rows, of any kind that `fit` takes but an iterator, with the same columns; a new group is welcome.
        y : labels, optional
            Labels of new rows that have none of their own.
        weights, offset, trials, exposure, groups, missing
            As in `fit`; roles that were columns are remembered.
        data : rows, or pair of rows and labels, optional
            All rows, old and new, to certify by them; with `new` left out the draws stay. Where the size or shape of
            the family is a parameter they are needed, and it is sampled again.
        progressbar : bool
            Show progress.

        Returns
        -------
        Fit
            Its story goes on from this one's.

        Raises
        ------
        DataError
            If new rows have other columns, labels or levels of a factor, or cannot be used, the fit's spread is
            cluster-robust, or its size is a parameter and `data` is missing.
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
        check_model_spread(self, "update", "; on the command line fit again without --cluster")
        roles = {"weights": weights, "offset": offset, "trials": trials, "exposure": exposure, "groups": groups}
        new_rows = new, y, {**roles, "missing": missing}
        if self._size_varies:
            _, all_given = check_update(self, new_rows, data, progressbar=progressbar)
            if all_given is None:
                raise DataError(
                    f"the {self._posterior().number} of family={self._family_asked!r} "
                    f"{'are parameters' if len(self._posterior().numbers) > 1 else 'is a parameter'}, which no coreset "
                    "tells: give all rows, fit.update(data=rows), by which draws are made anew, or fit with the "
                    f"{self._posterior().number} given, as in family={self.coreset.family!r}"
                )
            anew = self._of_sizes(all_given, self.prior)
            return replace(anew, story=(*self.story, *anew.story))
        route, all_given = route_of_update(self, new_rows, data, progressbar=progressbar)
        return replace(fit_of_route(route), _given=all_given)

    def with_prior(self, prior: Prior | Mapping[str, Prior] | None) -> "Fit":
        """Return the fit under another prior of the coefficients, from the same coreset, certified again.

        If the size of counts is a parameter, coresets are built again.

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
        check_model_spread(self, "with_prior")
        check_priors(prior)
        if self._size_varies:
            return self._of_sizes(self._rows_given, prior)
        settings = self.coreset.family, prior, self._seed, self._max_seconds
        route = Route(self._rows_given, *settings, group_prior=self.group_prior, options=self._options)
        route.story = [step for step in self.story if step.what in ("build", "update")]
        route.core = self.coreset
        route.design_prior()  # names of coefficients
        route.sample_until_certified()
        return replace(fit_of_route(route), _kept=self._kept)  # of the same rows

    def _of_sizes(self, given: Given, prior: Prior | Mapping[str, Prior] | None) -> "Fit":
        """Return the fit of rows whose family has its number as a parameter, as this one was made."""
        made: dict[str, Any] = {"group_prior": self.group_prior, "options": self._options}
        asked = self._family_asked
        fits = size_route_type(asked)(given, asked, prior, self._seed, self._max_seconds, **made)
        fits.run()
        return fit_of_route(fits)

    def cluster_robust(self, cluster: Any, *, strata: Any = None, lonely: str = "raise") -> "Fit":
        r"""Return the fit with draws whose spread is robust to rows of a cluster that depend on each other.

        The draws are moved by one affine map, so that their covariance under a prior that says little is the sandwich

        .. math:: F^{-1} J F^{-1}, \qquad J = \sum_h \frac{G_h}{G_h - 1} \sum_{c \in h} (u_{hc} - \bar u_h)
                  (u_{hc} - \bar u_h)',

        F the curvature of all rows' log-likelihood and u_hc the sum of the scores of cluster c in stratum h. It reads
        the levels of the labels, then all rows once, and keeps G D numbers for G clusters and D coefficients. A prior
        keeps its weight against it, see `fitting.clusters`.

        Weights of a survey (``weights=`` of `fit`) may be raw or have mean 1, as their scale cancels. Finite population
        corrections are left out: clusters count as drawn with replacement, so that intervals are too wide where a large
        share of all clusters is in the sample.

        An sd of noise or a size of counts that is a parameter keeps the model's spread.

        Clusters whose rows have weight 0 or are left out count with a score of 0, as in R's ``svyglm`` of a subset of a
        design: a domain of a survey is fitted with ``fit(domain=)``, not from its rows alone.

        Parameters
        ----------
        cluster : str or array, shape (n,)
            Column of the clusters, text or whole numbers, which may be a feature too; an array has one label for each
            row of the data. None gives the fit with the model's own spread.
        strata : str or array, optional
            The strata that clusters were drawn from; each cluster lies in one.
        lonely : {"raise", "adjust", "average"}
            What a stratum of one cluster adds to J, as in R's option ``survey.lonely.psu``. By default it is an error.
            "adjust" adds the square of its scores about the mean of all clusters, which is 0; "average" adds the mean
            of what the other strata add that have rows in the fit. Clusters are counted in the whole design, not in
            the domain.

        Returns
        -------
        Fit
            Its summary, predictions, averages, pictures and page are by the moved draws, ``fit.idata``, and say so.
            Level and certificate are still those of the model's own posterior.

        Raises
        ------
        DataError
            If the fit has group terms, or a prior without a curvature; if labels are missing, a cluster is in two
            strata, a stratum has one cluster and `lonely` does not say what it adds, clusters less strata are fewer
            than coefficients, or the rows are not there.

        Warns
        -----
        UserWarning
            If clusters are few, or each is one row, or some combination of coefficients has hardly any spread.

        References
        ----------
        Müller (2013), Risk of Bayesian inference in misspecified models, and the sandwich covariance matrix,
        Econometrica 81. Williams and Savitsky (2021), Uncertainty estimation for pseudo-Bayesian inference under
        complex sampling, International Statistical Review 89.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(np.arange(100), 40)
        >>> rows = pd.DataFrame({"size": rng.normal(size=100)[school], "school": school})
        >>> rows["passed"] = rows["size"] + rng.normal(size=100)[school] + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("passed ~ size", rows, random_state=1, progressbar=False)
        >>> robust = fit.cluster_robust("school")
        >>> robust.spread
        "cluster-robust by 100 clusters of 'school'"
        >>> bool(robust.summary()["sd"]["size"] > 2.0 * fit.summary()["sd"]["size"])
        True
        """
        check_lonely(lonely, strata)
        if cluster is None:
            refuse_strata(strata)
            return replace(self, _robust=None, story=tuple(step for step in self.story if step.what != "cluster"))
        model_fit = replace(self.cluster_robust(None), _given=self._rows_of_data)
        robust, step = cluster_robust(model_fit, cluster, strata, lonely)
        return replace(model_fit, _robust=robust, story=(*model_fit.story, step))

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
            If the fit does not have its rows, its draws are of a model of your own, its spread is cluster-robust, or
            its size is a parameter.

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
        check_model_spread(self, "all_rows_posterior")
        if self._size_varies:
            raise DataError(
                f"all_rows_posterior is of a model whose {self._posterior().number} is given, and here it is a "
                f"parameter: sample a PyMC model of your own, or fit with family={self.coreset.family!r}"
            )
        prior = known_prior(self, "; see with_prior")
        given, core = self._rows_given, self.coreset
        rows = given.data
        if not isinstance(rows, Coreset):
            roles = {**given.role_arguments(), "progressbar": progressbar}
            rows = all_rows(given.data, given.y, **roles, family=core.family, design=core.design)
            rows = replace(rows, params={**core.params, **rows.params} if core._sd_unknown else rows.params)
        if core.groups:
            options.setdefault("group_prior", self.group_prior)
        seed = one_seed(random_state, random_seed, default=self._seed + 1)
        return sample(rows, prior=prior, random_seed=seed, progressbar=progressbar, **options)

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
        return self._overview().text()

    def _repr_html_(self) -> str:
        return self._overview().html()

    def _overview(self) -> Overview:
        """Return what the fit prints."""
        return overview(self)

    def _parameters(self) -> tuple[list[str], FloatArray, list[int]]:
        """Return names and draws of parameters, in units of the data, and which of them are slopes."""
        slopes = [d for d in range(len(self.coreset.feature_names)) if d != self.coreset.design.constant]
        return (*parameters(self._posterior()), slopes)

    @property
    def _n_observations(self) -> int | None:
        """Number of observations; None where an older file does not say."""
        return self.coreset.n_observations

    @property
    def _data_facts(self) -> dict[str, str]:
        """What the rows are, in words by label."""
        return data_facts(self.coreset)

    @property
    def _used(self) -> Any:
        """The draws to use, as sampled: cluster-robust ones, or those of the certificate."""
        return usable_draws(self._drawn, self.certificate) if self._robust is None else self._robust

    def _posterior(self) -> Posterior:
        """Return the draws to use as arrays."""
        return read_posterior(self._used, "fit.idata")

    @property
    def _rows_given(self) -> Given:
        """The rows and their roles; those of a coreset that lost nothing are its own."""
        lossless = self._given is None and self.coreset.lossless and not self._is_pooled
        return Given(self.coreset) if lossless else self._rows_of_data

    @property
    def _has_rows(self) -> bool:
        """Whether the rows of the data are there; those of a coreset do not tell the data's columns."""
        return self._given is not None and not (self._given.once or isinstance(self._given.data, Coreset))

    @cached_property
    def _rows_of_data(self) -> Given:
        """The rows as they were given, with their roles; those given again are checked by a pass, once."""
        if self._is_pooled:
            raise DataError(
                f"the draws are {self.spread}, and not of one: give rows to an answer that takes data=rows, such as "
                "all tables below each other, or fit one table"
            )
        if self._given is None:
            raise DataError(
                "the fit was made of a coreset, read from files, or updated, and does not have all its rows: give them "
                "to the fit, read_fit(folder, data) or fit.update(data=rows), or to an answer that takes data=rows"
            )
        if self._given.known:
            return self._given
        point, effects = self._posterior().flat.mean(axis=0), self.certificate.effects
        check_same_rows(self._given, self.coreset, effects, point, updated=self._updated)
        return replace(self._given, known=True)

    @property
    def _size_varies(self) -> bool:
        """Whether the family's number, such as the size of negative binomial counts, is a parameter by several fits."""
        return is_between_fits(self._used.posterior.attrs)

    @property
    def _family_asked(self) -> str:
        """The family, without its number where that is a parameter."""
        if not self._size_varies:
            return self.coreset._family_asked
        family = cast(Varying, check_family(self.coreset.family))
        return family.asked(number_names(self._used.posterior.attrs))

    @property
    def _is_pooled(self) -> bool:
        """Whether the draws are of several imputed tables."""
        return self.spread.startswith("pooled")

    @property
    def _updated(self) -> bool:
        """Whether samples of earlier rows stand for them in the certificate."""
        return len(self._kept) > 1

    @cached_property
    def _pull(self) -> Pull | None:
        """What the prior moves, where it costs more than 2 nats of log likelihood; None else."""
        return pull_of(self._drawn, self.coreset)

    @property
    def _sampled_prior(self) -> Prior | None:
        """The prior of the coefficients of the design's columns; None if the draws are of a model of your own."""
        posterior = read_posterior(self._drawn, "the fit's draws")
        return posterior.prior if posterior.story else None

    @property
    def _design_prior(self) -> Prior:
        """The same prior; raise if there is none."""
        return known_prior(self, ": give prior=")


def fit_of_route(route: Route) -> Fit:
    """Return the fit at the end of a route; warn if it is not certified."""
    certificate = route.certificate
    if not certificate.trusted:
        warn(
            f"the draws are not certified: {certificate.text} The story says what was tried "
            f"(fit.story){see('how-to/not-certified.md')}"
        )
    settings = route.prior, route.seed, route.max_seconds, None if route.given.lossy else route.given
    return Fit(route.core, route.drawn, certificate, tuple(route.story), *settings, route.kept, _options=route.options)
