"""NUTS through PyMC: the weighted model of `models.pymc`, sampled by `pm.sample`.

For every family and prior, hierarchies included. PyMC takes seconds to import, and is so only when drawing.
"""

import importlib.util
import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize

from bayescore.data.coreset import Coreset
from bayescore.families.family import check_family
from bayescore.priors.groups import check_group_prior
from bayescore.progress import stop_display
from bayescore.samplers.groups import add_group_attrs
from bayescore.samplers.method import Request, Sampler
from bayescore.types import FloatArray

MOST_DENSE = 1000
"""Coordinates up to which the mass matrix of models of groups is dense."""

GROUP_ACCEPTANCE = 0.9
"""Acceptance that NUTS aims at with effects of groups, whose sds have long tails below."""

_DIFFERENCE = 1e-3  # of the differences, in the guessed sds
_MIN_CURVATURE = 0.05  # curvature in these units, flat directions among it: sds at most 4.5 times the guess
_ROUNDS = 3  # on a ridge the first ends before the mode; the next has better units

_STEP_OPTIONS = ("target_accept", "max_treedepth")
_START_OPTIONS = {"step", "init", "initvals"}  # who gives one of these chooses starts and mass matrix


def _is_not_blas_advice(record: logging.LogRecord) -> bool:
    return "implementation for BLAS functions" not in record.getMessage()


def _c_linker() -> AbstractContextManager[Any]:
    """Return a context in which PyTensor compiles by C, where it has a compiler and nobody has chosen a linker.

    PyTensor looks for a BLAS here, without its advice where it finds none, and keeps the answer for worker processes.
    PyTensor 3 would take numba: a minute of compiling the first time in place of ten seconds, and gradients of a
    coreset in two thirds of the time, less than a second in 4 x 1000 draws.
    """
    from pytensor.configdefaults import config

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
        _ = config.blas__ldflags
    logging.getLogger("pytensor.tensor.blas").addFilter(_is_not_blas_advice)
    return config.change_flags(linker="cvm") if config.linker == "auto" and config.cxx else nullcontext()


@dataclass(frozen=True, kw_only=True)
class PymcSampler(Sampler):
    """A sampler that is `pm.sample`; it takes all options that `pm.sample` takes, and warns of poor mixing itself."""

    @property
    def takes(self) -> str:
        """Its options in words."""
        text = 'anything that `pm.sample` takes, such as ``target_accept=0.95`` or ``nuts_sampler="nutpie"``'
        return f"{text}; with groups `group_prior`"

    def checked_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options given, once nutpie is there if it is asked for."""
        if given.get("nuts_sampler") == "nutpie" and importlib.util.find_spec("nutpie") is None:
            raise ImportError("nuts_sampler='nutpie' needs the package nutpie: pip install 'bayescore[nutpie]'")
        return dict(given)

    def draw(self, request: Request) -> Any:
        """Return what the installed `pm.sample` returns, statistics under PyMC's names whatever its `nuts_sampler`.

        By default that is PyMC's own, as nutpie takes neither starts nor mass matrix. Laplace's approximation gives
        both where it knows the posterior's width: PyMC's jitter of 1 can be hundreds of posterior sds. The step is
        built afresh for each call, as one that has adapted in other processes does not adapt again.
        """
        import pymc as pm

        from bayescore.models.pymc import model

        if request.data.group is not None:
            return _draw_with_groups(request)
        options = dict(request.options)
        own_start = bool(options.keys() & _START_OPTIONS) or options.get("nuts_sampler", "pymc") != "pymc"
        if (not request.prior.closed_form or request.prior.bends) and not own_start:
            options.setdefault("target_accept", 0.95)  # hierarchies of the horseshoe and of smooths have funnels
        options.setdefault("nuts_sampler", "pymc")
        unknown = request.sd_prior is not None
        with _c_linker(), model(request.data, request.prior, family=None if unknown else request.family):
            if request.prior.smooth and not own_start:
                starts, spread = request.starts(request.target())
                tuning = {name: options.pop(name) for name in _STEP_OPTIONS if name in options}
                of_noise = np.full((int(unknown), int(unknown)), 0.5 / request.data.weights.sum())
                scaling = linalg.block_diag(spread @ spread.T, of_noise)
                options["step"] = pm.NUTS(scaling=scaling, is_cov=True, **tuning)
                options["initvals"] = [{"beta": start, **_sd_start(request)} for start in starts]
            idata = _sampled(request, options)
        if request.prior.bends:  # the density of standardised bends, which are no parameters of `sample`
            del idata.sample_stats["lp"]
        return idata


def _sampled(request: Request, options: dict[str, Any]) -> Any:
    """Return draws of the model of the `with` block, statistics under PyMC's names."""
    import pymc as pm

    from bayescore.compat import with_pymc_names

    stop_display()
    return with_pymc_names(
        pm.sample(
            draws=request.draws,
            tune=request.tune,
            chains=request.chains,
            cores=request.cores,
            random_seed=request.seed,
            progressbar=request.progressbar,
            **options,
        )
    )


def _sd_start(request: Request) -> dict[str, float]:
    """Return where the sd of the noise starts, if it is a parameter."""
    return {} if request.sd_prior is None else {"sigma": float(check_family(request.family).unit)}


def _draw_with_groups(request: Request) -> Any:
    """Return draws of the model of rows with groups; a chain starts within an sd of the mode of its coefficients."""
    import pymc as pm

    from bayescore.models import pymc as pymc_model

    options = {"target_accept": GROUP_ACCEPTANCE, "nuts_sampler": "pymc", **request.options}
    data, group_prior = request.data, check_group_prior(options.pop("group_prior", None))
    if not isinstance(data, Coreset):
        raise TypeError(f"core is a {type(data).__name__}, whose groups have no names; give a coreset or all_rows(...)")
    family = request.family if request.sd_prior is None else None
    with _c_linker(), pymc_model.model(data, request.prior, group_prior=group_prior, family=family) as model:
        names = [str(each.name) for each in (*model.free_RVs, *model.deterministics)]
        options.setdefault("var_names", [name for name in names if not name.endswith("_standardised")])
        if not options.keys() & _START_OPTIONS and options["nuts_sampler"] == "pymc":
            density = model.logp_dlogp_function(ravel_inputs=True)
            density.trust_input = True
            center, spread = pymc_model.start_of(data, request.prior, request.family)
            noise = np.random.default_rng(request.streams[-1]).standard_normal((request.chains, len(center)))
            options["initvals"] = [{"beta": start, **_sd_start(request)} for start in center + noise @ spread.T]
            tuning = {name: options.pop(name) for name in _STEP_OPTIONS if name in options}
            scaling = _scaling(density, _start_points(model, center), spread, data)
            options["step"] = pm.NUTS(scaling=scaling, is_cov=True, logp_dlogp_func=density, **tuning)
        idata = _sampled(request, options)
    add_group_attrs(
        idata, data.groups, group_prior, sorted({*map(str, idata["posterior"].data_vars)} - {"beta", "sigma"})
    )
    return idata


def _scaling(density: Any, points: dict[str, FloatArray], spread: FloatArray, data: Coreset) -> FloatArray:
    """Return about the covariance of what NUTS moves, given the factor of that of beta.

    First guessed: that of beta; 1 of effects' coordinates; of others 1 / G, as a sd of G effects has a logarithm of sd
    1 / sqrt(2 G) or more. Where there are more than `MOST_DENSE` the diagonal of that.
    """
    least = 1.0 / min(len(group) for group in data.groups)
    blocks = [
        spread @ spread.T if name == "beta" else np.eye(at.size) * (1.0 if name.endswith("_standardised") else least)
        for name, at in points.items()
    ]
    origin = np.concatenate([*points.values()])
    if len(origin) > MOST_DENSE:
        return np.concatenate([np.diagonal(block) for block in blocks])
    density.set_extra_values({})
    return covariance_at_mode(density, origin, linalg.block_diag(*blocks))


def _start_points(model: Any, center: FloatArray) -> dict[str, FloatArray]:
    """Return where each variable that NUTS moves starts, in its order and unconstrained; beta at its centre."""
    start = {model.values_to_rvs[value].name: value.name for value in model.continuous_value_vars}
    at = model.initial_point()
    return {name: center if name == "beta" else np.ravel(at[value]).astype(float) for name, value in start.items()}


def covariance_at_mode(
    density: Callable[[FloatArray], tuple[FloatArray, FloatArray]], origin: FloatArray, guess: FloatArray
) -> FloatArray:
    """Return about the covariance, shape (n, n), of a log density up to a constant, from a guess S S' of it.

    Coefficients and the effects of two factors lie on a ridge, the intercept against the sums of either. With a mass
    matrix of blocks NUTS climbs along it, and its 4 x 1000 draws are worth nine. With x = x_0 + S y the mode of y is
    sought, the curvature in y found there by differences of the gradient, and both make the next guess.
    """
    S = np.linalg.cholesky(guess)

    def descent(y: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = density(origin + S @ y)
        return -float(value), -(S.T @ gradient)

    each = _DIFFERENCE * np.eye(len(origin))
    for _ in range(_ROUNDS):
        mode = optimize.minimize(descent, np.zeros(len(origin)), jac=True, method="L-BFGS-B").x
        H = np.stack([descent(mode + e)[1] - descent(mode - e)[1] for e in each]) / (2.0 * _DIFFERENCE)
        if not np.isfinite(H).all():  # the density overflows at this mode: the guess before it stays
            break
        curvature, Q = np.linalg.eigh(0.5 * (H + H.T))
        origin, S = origin + S @ mode, S @ (Q / np.sqrt(np.maximum(curvature, _MIN_CURVATURE)))
    return np.asarray(S @ S.T)


NUTS = PymcSampler(
    name="nuts", about="the No-U-Turn sampler through `pm.sample`", reports_itself=True, grouped=None, draws_sd=True
)
