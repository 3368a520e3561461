r"""What a fit says about its prior: draws from it, of parameters and responses, and what another scale of it does.

Priors in units of the data's own columns, and the default one, for design matrices with standardised columns.

`fit` standardises the columns of models with an intercept. The default prior is

.. math:: c_d \sim N(0, (2.5 / \mathrm{sd}(x_d | x_{-d}))^2), \qquad \alpha \sim N(0, 2.5^2),

c_d the coefficient of a raw column, sd(x_d | x_{-d}) the weighted population sd over all rows of what remains of the
column after its regression on the others (`priors.groups.conditional_sds`), \alpha the intercept where all columns are
at their means. Where columns are uncorrelated these are rstanarm's default priors for ``binomial(link = "logit")``,
which go by sd(x_d). Of columns that nearly determine each other, as a year and its square, rstanarm's say that all
coefficients are small one by one, and overrule what the rows tell about their sums; these do not. Those of numbers with
normal noise are in units of y. A prior that is given is on c_d and \alpha too, so that "Intercept" means the same as in
rstanarm and brms.

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).

Effects of a group are N(0, S), S of sds and correlations that are drawn, too. Correlations have the density
det(R)^(eta - 1), drawn by partial correlations (Lewandowski, Kurowicka and Joe 2009, Journal of Multivariate
Analysis 100).

A draw beta of the posterior under the prior p has under another prior p' the importance weight

.. math:: w \propto p'(\beta) / p(\beta),

Pareto smoothed. It needs neither likelihood nor rows. Where k-hat says that the weights do not do, the coreset is
sampled again under p'.

Reference: Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and likelihood sensitivity
with power-scaling, Statistics and Computing 34.

How far the prior moves the mode from where the data alone would have it, in nats of log likelihood.

.. math:: L(\hat\theta) - L(t)

t is the mode of the posterior, \hat\theta that of the likelihood, both of the coreset with what its rows miss. A prior
about t of 1e-10 of the data's information takes the place of none: where the likelihood has no maximum, as of separated
rows, the figure is a bound from below. Of a prior without a closed form t is the mean. With groups the effects' sds
stay where they are, and L is the quadratic in the coefficients that the effects' modes leave
(`models.groups.joint_mode`).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray as xr
from scipy import linalg

from bayescore.compat import as_arviz, as_xarray, inference_data
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping
from bayescore.diagnostics.results import Level
from bayescore.families.family import LARGEST_SIZE, Varying, check_family
from bayescore.fitting.parts import (
    check_model_spread,
    interval_names,
    known_prior,
    labelled,
    parameters,
    raw_rows,
    summarise,
)
from bayescore.limits import MAX_PULL
from bayescore.models.groups.joint_mode import curvature_at, solver_at
from bayescore.models.groups.rows import JointRows
from bayescore.models.laplace import Mode, NoModeError, find_mode, missed_terms
from bayescore.models.posterior import Derivatives, likelihood_terms, prior_part
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.psis import WeightedColumns, full_weights
from bayescore.priors import Independent, Prior
from bayescore.priors.by_name import ByName, needs_default, prior_of
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms, standard_prior
from bayescore.priors.prior import check_prior
from bayescore.priors.smooths import Smooths
from bayescore.samplers.posterior import Posterior, creation_attrs, in_data_units, numbers_of_draws, read_posterior
from bayescore.samplers.sample import sample_as_tree
from bayescore.tables import Table
from bayescore.text import number
from bayescore.types import NO_GROUP, FloatArray
from bayescore.validation import DataError, check_integer, check_positive, check_seed

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors of the prior's scale, by default."""


def design_prior(given: Prior | Mapping[str, Prior] | None, design: Design, default: Prior | None = None) -> Prior:
    """Return the prior of the coefficients of a design, given one in units of the data's own columns.

    By default it is `default`, in units of the design, or that of its standardised columns. Hierarchies and
    multivariate priors, whose parameters are not one coefficient's, stay as they are: they are on the standardised
    columns.
    """
    names = design.names
    if given is None:
        return standard_prior(design) if default is None else default
    prior = prior_of(given, names)
    if not isinstance(prior, Independent):
        return prior
    each = _scaled(prior, names, design.scales)
    if isinstance(prior, ByName) and needs_default(given):
        rest = design_prior(None, design, default)
        for d in prior.unnamed:
            each[d] = rest.of_coefficient(d, names[d], len(names))
    return _joint_prior(each, names)


def raw_prior(prior: Prior, design: Design) -> Prior:
    """Return the prior in units of the data's own columns, given that of the design's: `design_prior` backwards."""
    if not isinstance(prior, Independent):
        return prior
    return _joint_prior(_scaled(prior, design.names, 1.0 / design.scales), design.names)


def _scaled(prior: Prior, names: Sequence[str], scales: FloatArray) -> list[Prior]:
    """Return the prior of each coefficient, which is `scales` times as large."""
    D = len(names)
    prior.parts(D)  # shapes
    each = [prior.of_coefficient(d, name, D) for d, name in enumerate(names)]
    return [
        one.replaced(**{name: float(getattr(one, name) * scale) for name in one.in_units})
        for one, scale in zip(each, scales, strict=True)
    ]


def _joint_prior(each: list[Prior], names: Sequence[str]) -> Prior:
    """Return one prior of all coefficients: if of one class, a parameter is a number where they agree, or a vector."""
    if any(type(one) is not type(each[0]) for one in each):
        return prior_of(dict(zip(names, each, strict=True)), names)
    values = {name: tuple(getattr(one, name) for one in each) for name in each[0].parameters()}
    return each[0].replaced(**{name: value[0] if len(set(value)) == 1 else value for name, value in values.items()})


def check_priors(prior: Any) -> None:
    """Raise unless `prior` is one: names of coefficients are checked once they are known."""
    if prior is None:
        return
    for name, one in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        try:
            check_prior(one)
        except TypeError as error:
            said = str(error).removeprefix("prior").removeprefix(f"={one!r} ")
            which = f"prior[{name!r}]" if name else "prior"
            raise TypeError(
                f"{which}={one!r} {said}. A flat prior is not among them, as labels that "
                "some column separates would have no posterior; a wide one is prior=bc.priors.Normal(0, 10)"
            ) from None


ROWS = 1000
"""Rows whose responses are drawn, at most."""


def prior_predictive(fit: "Fit", draws: int, random_state: Any) -> Any:
    """Return draws of the prior and of responses of some rows; arguments as of `Fit.prior_predictive`."""
    check_integer(draws, "draws", low=1)
    seed, prior = check_seed(random_state), known_prior(fit, ": ask that model")
    from bayescore.models.pymc import draw_coefficients  # loads PyMC

    posterior, design, rng = fit._posterior(), fit.coreset.design, np.random.default_rng(seed)
    sample = raw_rows(fit, None)
    kept = np.sort(rng.permutation(len(sample))[:ROWS])
    responses = sample.events if sample.log_times is None else np.exp(sample.log_times)
    rows, known = sample.designed().take(kept), None if responses is None else responses[kept]
    parameters = draw_coefficients(prior, fit.coreset.feature_names, draws, seed)
    factors = []
    for grouping in design.groups:
        assert fit.group_prior is not None
        sd = half_draws(fit.group_prior, (draws, len(grouping.effects)), rng)
        R = correlation_draws(grouping, draws, rng)
        parameters[f"sigma_{grouping.name}"] = sd if sd.shape[1] > 1 else sd[:, 0]
        if len(grouping.pairs[0]):
            parameters[f"rho_{grouping.name}"] = R[:, *grouping.pairs]
        factors.append(Factor(grouping, np.empty((draws, 0, len(grouping.effects))), sd[:, :, None] * R * sd[:, None]))
    for name in posterior.numbers:
        if name == "sigma" and posterior.sd_prior is not None:
            parameters[name] = half_draws(posterior.sd_prior, (draws,), rng)
        else:
            parameters[name] = np.minimum(cast(Varying, posterior.family).draw_prior(draws, rng), 0.9 * LARGEST_SIZE)
    number = numbers_of_draws({name: parameters[name] for name in posterior.numbers})
    predictor = Predictor(parameters["beta"], factors, design, size=number)
    which = np.zeros((len(rows), 0), dtype=np.int64)
    if rows.group is not None:
        which = np.stack([np.unique(codes, return_inverse=True)[1] for codes in rows.group.T], axis=1)
        rows = replace(rows, group=np.full_like(rows.group, NO_GROUP))
    eta, family = predictor.sampled(rows, which, seed), predictor.at_draws(posterior.family)
    continuous = family.numbers or family.amounts
    y = family.draw(eta, rng, rows.weights[:, None]).T.astype(np.float64 if continuous else np.int64)
    observed = (rows.y > 0).astype(np.int64) if known is None else known.astype(y.dtype) + family.least
    dims: dict[str, list[str]] = {"beta": ["feature"]}
    coords: dict[str, Any] = {"feature": list(fit.coreset.feature_names)}
    for grouping in design.groups:
        if len(grouping.effects) > 1:
            name = grouping.name
            dims |= {f"sigma_{name}": [f"{name}_effect"], f"rho_{name}": [f"{name}_pair"]}
            coords[f"{name}_effect"] = list(grouping.effects)
            coords[f"{name}_pair"] = [f"{a}, {b}" for a, b in grouping.paired_effects]
    whole = {name: values[None] for name, values in parameters.items()}
    drawn = inference_data(
        {"posterior": whole}, coords=coords, dims={name: dims[name] for name in dims if name in whole}
    )
    places = {"row": rows.index.tolist()}
    about = {**creation_attrs(), "random_state": str(seed), "family": family.name}
    found = inference_data({"prior_predictive": {"y": y[None]}}, coords=places, dims={"y": ["row"]})
    found["prior"] = as_xarray(in_data_units(drawn, design)["posterior"]).assign_attrs(about)
    found["observed_data"] = xr.Dataset({"y": ("row", observed)}, coords=places, attrs=creation_attrs())
    return as_arviz(found)


def half_draws(prior: GroupPrior, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Return draws of an sd from its prior."""
    normal = np.isinf(prior.nu)
    return np.abs(rng.standard_normal(shape) if normal else rng.standard_t(prior.nu, shape)) * prior.sigma


def correlation_draws(grouping: Grouping, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of a factor's correlations, shape (S, q, q); effects of different blocks are uncorrelated."""
    q = len(grouping.effects)
    found = np.zeros((draws, q, q))
    for first, end in dict.fromkeys(map(tuple, grouping.block_ends.tolist())):
        n = end - first
        L = np.zeros((draws, n, n))
        left = np.ones((draws, n))  # of the squared length of each row
        for k in range(n):
            L[:, k, k] = np.sqrt(left[:, k])
            if k + 1 < n:
                b = LKJ_ETA + 0.5 * (n - 2 - k)
                partial = 2.0 * rng.beta(b, b, (draws, n - 1 - k)) - 1.0
                L[:, k + 1 :, k] = partial * np.sqrt(left[:, k + 1 :])
                left[:, k + 1 :] *= 1.0 - partial**2
        found[:, first:end, first:end] = L @ L.transpose(0, 2, 1)
    return found


def prior_sensitivity(fit: "Fit", scales: Sequence[float], prob: float) -> Table:
    """Return how the parameters move with the scale of the prior."""
    check_model_spread(fit, "prior_sensitivity")
    interval_names(prob)
    if np.ndim(scales) != 1:
        raise TypeError(f"scales={scales!r} is no list; give factors of the prior's scale, such as [0.5, 1, 2]")
    factors = [check_positive(scale, f"scales[{place}]") for place, scale in enumerate(scales)]
    if not factors:
        raise ValueError("scales is empty; give factors of the prior's scale, such as [0.5, 1, 2]")
    posterior, prior = fit._posterior(), known_prior(fit, "; see with_prior")
    names, by_chain = parameters(posterior)
    draws = by_chain.reshape(-1, by_chain.shape[2]).T
    center, sd = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    tables = []
    for factor in factors:
        other = rescaled(prior, factor)
        found, k = None, np.nan
        if prior.closed_form:
            weights = full_weights(_log_ratio(other, prior, posterior))
            found, k = _weighed(draws, weights.weights, prob) if weights.good else None, weights.pareto_k
        by = "new draws" if found is None else "weights"
        if found is None and fit._size_varies:
            raise DataError(
                f"scales has {factor:g}, whose posterior is too far for weights of these draws; see "
                "fit.with_prior, which makes the fits of each size anew"
            )
        if found is None:
            again = parameters(read_posterior(draws_under(fit, other), "idata"))[1]
            found = summarise(again.reshape(-1, again.shape[2]).T, prob)
        table = pd.DataFrame({"parameter": names, **found})
        table.insert(0, "scale", factor)
        level = fit.level if by == "weights" else str(Level.NOT_CERTIFIED)
        # weights that are all alike move nothing but last digits
        shift = np.zeros(len(names)) if factor == 1.0 else (found["mean"] - center) / sd
        tables.append(table.assign(shift=shift, by=by, pareto_k=k, level=level))
    whole = pd.concat(tables, ignore_index=True)
    others = (whole["level"] != fit.level).any()
    return labelled(fit, whole, str(Level.NOT_CERTIFIED) if others else fit.level)


def _log_ratio(other: Prior, prior: Prior, posterior: Posterior) -> FloatArray:
    """Return the log ratio of two priors at draws, shape (S,); of smooth terms that of the sds with it."""
    if not (isinstance(other, Smooths) and isinstance(prior, Smooths)):
        return other.log_density(posterior.flat) - prior.log_density(posterior.flat)
    straight = posterior.flat[:, list(prior.others)]
    ratio = other.base.log_density(straight) - prior.base.log_density(straight)
    for new, old in zip(other.bends, prior.bends, strict=True):
        log_sds = np.log(posterior.variables[old.name])
        for sign, each in ((1.0, new), (-1.0, old)):
            ratio += sign * np.array([log_sigma_terms(log_sd, each.nu, each.scale)[0] for log_sd in log_sds])
    return ratio


def draws_under(fit: "Fit", prior: Prior) -> Any:
    """Draw from the coreset's posterior under another prior."""
    posterior = fit._drawn.posterior
    of_groups: Any = {} if fit.group_prior is None else {"group_prior": fit.group_prior}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the cap of max_gradients", UserWarning)
        return sample_as_tree(
            fit.coreset,
            family=None if "sd_prior" in posterior.attrs else fit.coreset.family,
            prior=prior,
            sampler=posterior.attrs["sampler"],
            draws=posterior.sizes["draw"],
            tune=int(posterior.attrs["tuning_steps"]),
            chains=posterior.sizes["chain"],
            random_seed=fit._seed,
            progressbar=False,
            **of_groups,
        )


def rescaled(prior: Prior, factor: float) -> Prior:
    """Return a prior with its scales multiplied."""
    if isinstance(prior, ByName):
        return replace(prior, priors=tuple((name, rescaled(one, factor)) for name, one in prior.priors))
    if isinstance(prior, Smooths):
        bends = tuple(replace(each, scale=factor * each.scale) for each in prior.bends)
        return replace(prior, base=cast(Independent, rescaled(prior.base, factor)), bends=bends)
    names = [name for name in prior.in_units if name in prior.positive]
    if not names:
        raise DataError(
            f"prior={prior} has no scale that is a coefficient's own; give the fit another, or see with_prior"
        )
    scales = {name: np.multiply(factor, getattr(prior, name)).tolist() for name in names}
    return prior.replaced(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in scales.items()}
    )


def _weighed(draws: FloatArray, weights: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of weighed draws, shape (K, S), by the names of `summarise`."""
    mean = draws @ weights
    sd = np.sqrt(np.maximum((draws - mean[:, None]) ** 2 @ weights, 0.0))
    low, high, tail = interval_names(prob)
    columns = WeightedColumns(draws.T, weights)
    return {"mean": mean, "sd": sd, low: columns.quantile(tail), high: columns.quantile(1.0 - tail)}


_NEGLIGIBLE_SHARE = 1e-10  # of the data's information, as a prior: rows may be separated, columns combinations
_LOST_INFORMATION = 0.01  # of that at the one mode, left at the other: less is left where there is no mode
_LITTLE = 0.25  # of the limit: draws tell the pull to their noise
_MOST_STEPS = 60
_FLAT_SD = 1e6  # sd of bends, under which their prior says nothing


@dataclass(frozen=True)
class Pull:
    """The coefficient that the prior moves most, in sds of the data alone: its values without the prior and with it.

    `nats` of log likelihood, lost by all coefficients together; whether the likelihood has its maximum, `has_mode`.
    """

    feature: str
    without: float
    under: float
    nats: float
    has_mode: bool

    @property
    def doubt(self) -> str:
        """What the prior does, in few words."""
        return f"it moves {self.feature!r} by {number(self.nats, 2)} nats{'' if self.has_mode else ' or more'}"

    def __str__(self) -> str:
        costs = f"{number(self.nats, 2)} nats of log likelihood"
        under, without = (f"{value:.3g}" for value in (self.under, self.without))
        if self.has_mode:
            return f"The prior moves {self.feature!r} to {under} from the data's {without}, at a cost of {costs}."
        return (
            f"The prior keeps {self.feature!r} at {under}, where the data alone would have it at {without} or beyond, "
            f"at a cost of {costs} or more."
        )


def pull_of(idata: Any, core: Coreset) -> Pull | None:
    """Return how the prior of draws of a coreset's posterior moves them; None where that is less than `MAX_PULL`."""
    posterior = read_posterior(idata, "the fit's draws")
    if not posterior.story:  # of a model of the user's own
        return None
    prior, start, penalty = posterior.prior, posterior.flat.mean(axis=0), None
    if isinstance(prior, Smooths):  # what bends have of smoothness is the model's, and no prior that pulls
        penalty = np.zeros(len(start))
        for each in prior.bends:
            penalty[list(each.places)] = each.precisions(start)[0] / np.square(each.scales)
        prior = prior.given(np.full(len(prior.bends), _FLAT_SD))
    if prior.closed_form and _is_prior_negligible(posterior.flat, prior):
        return None
    moved: ModePair | None
    try:
        if core.groups:
            moved = _grouped_modes(posterior, core, prior)
        else:
            alone = replace(core, shortfall=None)
            moved = _flat_modes(start, core, prior, penalty) or _flat_modes(start, alone, prior, penalty)
    except (DataError, np.linalg.LinAlgError):  # the fit's other lines say why
        return None
    if moved is None:
        return None
    under, without, sd, nats, ends = moved
    if not nats > MAX_PULL:
        return None
    d = int(np.argmax(np.abs(without - under) / sd))
    scale = core.design.scales[d]
    return Pull(core.feature_names[d], float(without[d] / scale), float(under[d] / scale), nats, ends)


ModePair = tuple[FloatArray, FloatArray, FloatArray, float, bool]
"""Coefficients under the prior and without, their sds by the data alone, nats, and whether the likelihood's mode ends
there."""


def _is_prior_negligible(draws: FloatArray, prior: Prior) -> bool:
    """Whether, by the draws, the prior has little information and little effect on the mean in every direction."""
    part, V = prior_part(draws.mean(axis=0), prior), np.atleast_2d(np.cov(draws.T))
    share = float(np.linalg.eigvals(V @ part.precision).real.max())
    return share < 0.5 and float(part.gradient @ V @ part.gradient) < _LITTLE * MAX_PULL


def _flat_modes(start: FloatArray, core: Coreset, prior: Prior, penalty: FloatArray | None = None) -> ModePair | None:
    """Return the two modes of rows without groups; None where they are not found.

    `penalty` has precisions about 0 that the likelihood counts. The modes may not be found far out, as of separated
    rows, where what the rows miss is no quadratic.
    """
    family = check_family(core.family)

    def likelihood(beta: FloatArray) -> Derivatives:
        terms = likelihood_terms(beta, core, family)
        if penalty is not None:
            terms += Derivatives(-0.5 * float(penalty @ beta**2), -penalty * beta, np.diag(penalty))
        return terms if core.shortfall is None else terms + missed_terms(core.shortfall, beta)

    def density(beta: FloatArray) -> Derivatives:
        return likelihood(beta) + prior_part(beta, prior)

    under = start
    if prior.closed_form:
        mode = _mode_or_end(density, start)
        if mode is None:
            return None
        under = mode.beta
    here = likelihood(under)
    faint = _negligible_precision(here.precision)

    def without_prior(beta: FloatArray) -> Derivatives:
        pull = faint @ (beta - under)
        return likelihood(beta) + Derivatives(-0.5 * float(pull @ (beta - under)), -pull, faint)

    free = _mode_or_end(without_prior, under)
    if free is None:
        return None
    there = likelihood(free.beta)
    left = linalg.eigvalsh(there.precision + faint, here.precision + faint)[0]
    return under, free.beta, free.sd, there.value - here.value, bool(left > _LOST_INFORMATION)


def _mode_or_end(terms: Callable[[FloatArray], Derivatives], start: FloatArray) -> Mode | None:
    """Return the mode, or where the steps allowed have led; None where the density is not concave there."""
    try:
        return find_mode(terms, start, tolerance=1e-3, max_steps=_MOST_STEPS)
    except NoModeError as error:
        return error.reached


def _grouped_modes(posterior: Posterior, core: Coreset, prior: Prior) -> ModePair:
    """Return the mean of the coefficients and a Newton step from it without the prior, the effects' sds as they are."""
    family, rows, beta = check_family(core.family), JointRows.of(core), posterior.flat.mean(axis=0)
    factors = [Factor.of(grouping, posterior.variables) for grouping in rows.factors]
    effects = [factor.mean(slice(None)) for factor in factors]
    covariances = [np.asarray(factor.covariance).mean(axis=0) for factor in factors]
    curvature, D = curvature_at(rows, beta, effects, family), len(beta)
    solver = solver_at(curvature, rows, _negligible_precision(curvature.rest[:D, :D]), covariances)
    covariance = linalg.cho_solve((solver.factor, True), np.eye(len(solver.factor))[:, :D])[:D]
    pull = prior_part(beta, prior).gradient  # which the likelihood's balances
    step = -covariance @ pull
    return beta, beta + step, np.sqrt(np.diagonal(covariance)), -0.5 * float(pull @ step), True


def _negligible_precision(precision: FloatArray) -> FloatArray:
    """Return the precision, shape (D, D), of a prior that is negligible beside the data's information at one point."""
    diagonal = np.diagonal(precision)
    return np.diag(_NEGLIGIBLE_SHARE * np.maximum(diagonal, _NEGLIGIBLE_SHARE * diagonal.max()))
