"""`gibbs` and `polya_gamma` as step methods of PyMC, for hierarchies above Gaussian coefficients.

>>> with pm.Model():                                                            # doctest: +SKIP
...     tau = pm.HalfNormal("tau", 1)
...     beta = pm.Normal("beta", 0, tau, shape=core.n_features)
...     bc.weighted_potential("loglik", core, beta, family="probit")
...     idata = pm.sample(step=AlbertChibGibbs(beta, core))

The coefficients are drawn given the hyperparameters, at whose current values the prior is evaluated; PyMC gives the
hyperparameters a step method of their own, NUTS. The steps adapt nothing, so that one may serve several calls of
`pm.sample`; an adapting step that stands beside them must be built afresh for each, as one that has adapted in other
processes does not adapt again.
"""

from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.blocking import PointType, StatsType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.tensor.random.basic import MvNormalRV, NormalRV

from bayescore.models.posterior import posterior, prior_part
from bayescore.priors import MultivariateNormal, Normal
from bayescore.samplers import gibbs, polya_gamma
from bayescore.samplers.method import Segment, signed_rows
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_integer

_PRIORS: dict[Any, Any] = {NormalRV: Normal, MvNormalRV: MultivariateNormal}


class AugmentationStep(BlockedStep):  # type: ignore[misc]
    """Some sweeps of a sampler by data augmentation; statistic `accept`, their mean acceptance probability."""

    sampler: ClassVar[ModuleType]
    family: ClassVar[str]
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"accept": (np.float64, [])}
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        data: WeightedData,
        *,
        sweeps: int = 10,
        model: Any = None,
        rng: Any = None,
        blocked: bool = True,  # noqa: ARG002
    ) -> None:
        model = pm.modelcontext(model)
        self.vars = get_value_vars_from_user_vars(vars if isinstance(vars, list | tuple) else [vars], model)
        self.data = data
        self.sweeps = check_integer(sweeps, "sweeps", low=1)
        self.rng = get_random_generator(rng)
        if len(self.vars) != 1:
            raise ValueError(f"vars has {len(self.vars)} variables; give the one vector of coefficients")
        variable = model.values_to_rvs[self.vars[0]]
        kind = type(variable.owner.op)
        if kind not in _PRIORS:
            raise TypeError(
                f"{variable.name} has the prior {kind.__name__}; {type(self).__name__} needs pm.Normal or pm.MvNormal"
            )
        self._prior = _PRIORS[kind]
        start = model.initial_point()
        shape = start[self.vars[0].name].shape
        if shape != (data.n_features,):
            raise DataError(f"{variable.name} has shape {shape}; the data have {data.n_features} features")
        parameters = model.replace_rvs_by_values(variable.owner.op.dist_params(variable.owner))
        self._parameters = model.compile_fn(parameters, inputs=model.value_vars, on_unused_input="ignore")
        self._check(model, start)

    def prior_at(self, point: PointType) -> Normal | MultivariateNormal:
        """Return the coefficients' prior given the hyperparameters."""
        location, scale = self._parameters(point)
        size = self.data.n_features
        if self._prior is Normal:
            return Normal(np.broadcast_to(location, size), np.broadcast_to(scale, size))
        return MultivariateNormal(np.broadcast_to(location, size), scale)

    def _check(self, model: Any, start: PointType) -> None:
        """Raise unless the model's log density changes with the coefficients as that of the data and the prior does."""
        log_density = model.compile_logp(mode="FAST_COMPILE")
        name = self.vars[0].name
        target = posterior(self.data, self.family, self.prior_at(start))
        at_start = start[name]
        elsewhere = at_start + np.cos(np.arange(len(at_start))) / np.abs(self.data.X).max(axis=0).clip(1e-300) / len(
            at_start
        )
        theirs = [float(log_density({**start, name: beta})) for beta in (at_start, elsewhere)]
        ours = [target.log_density(beta)[0] for beta in (at_start, elsewhere)]
        tolerance = 1e-6 * max(1.0, *map(abs, ours))  # PyTensor has float32 constants here and there
        if not abs((theirs[1] - theirs[0]) - (ours[1] - ours[0])) <= tolerance:
            raise ValueError(
                f"the model's density of {name} is not its prior times the {self.family} likelihood of data; give "
                f"the data of weighted_potential(..., family={self.family!r}), without offset= or groups=, and "
                f"let nothing else depend on {name}"
            )

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Draw the coefficients given all else."""
        name = self.vars[0].name
        # A proposal of extreme hyperparameters can leave no prior in floating point (a scale that underflows to 0, a
        # covariance that rounding makes indefinite). Whether it does depends on them alone, so that to leave the
        # coefficients where they are keeps their conditional density invariant; the next step may move on.
        stay = {**point}, [{"accept": 0.0}]
        with np.errstate(all="ignore"):
            try:
                prior = prior_part(np.zeros(self.data.n_features), self.prior_at(point))
                Z, weights, offsets = signed_rows(self.data)
                arguments = self.sampler.prepare(Z, weights, prior, offsets)
            except ValueError:  # LinAlgError too
                return stay
        drawn = Segment.empty(1, self.data.n_features, self.sweeps)
        self.sampler.advance(self.rng, point[name], None, arguments, drawn)
        if not np.isfinite(drawn.draws).all():
            return stay
        return {**point, name: drawn.draws[0]}, [{"accept": drawn.acceptance[0]}]


_DOC = """

    Parameters
    ----------
    vars : variable, or list with one
        The coefficients: a vector with a `pm.Normal` or `pm.MvNormal` prior, whose parameters may be random.
    data : WeightedData
        The data of the model's `weighted_potential`.
    sweeps : int
        Sweeps in one step: they are cheap compared with a step of NUTS.
    model : pm.Model, optional
        By default that of the `with` block.
    rng : RandomGenerator, optional
        `pm.sample` sets its own for each chain.
    blocked : bool
        Ignored; PyMC passes it.

    Raises
    ------
    TypeError
        If the coefficients' prior is not Gaussian.
    DataError
        If there are not as many coefficients as features.
    ValueError
        If the model's density of the coefficients is not that of `data` and the prior.

    Examples
    --------
    >>> import numpy as np, pymc as pm, bayescore as bc
    >>> from bayescore.samplers.steps import {step}
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> core = bc.all_rows(X, X[:, 0] + rng.normal(size=500) > 0, family="{family}", progressbar=False)
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 4, shape=2)
    ...     _ = bc.weighted_potential("loglik", core, beta, family="{family}")
    ...     step = {step}(beta, core)
    >>> [variable.name for variable in step.vars]  # for pm.sample(step=step)
    ['beta']
    """


class AlbertChibGibbs(AugmentationStep):
    """Albert and Chib's sampler for the probit likelihood, see `gibbs`."""

    __doc__ += _DOC.format(step="AlbertChibGibbs", family="probit")
    name = "albert_chib_gibbs"
    sampler: ClassVar[ModuleType] = gibbs
    family: ClassVar[str] = "probit"


class PolyaGammaGibbs(AugmentationStep):
    """Polya-Gamma Gibbs sampling for the logistic likelihood, see `polya_gamma`."""

    __doc__ += _DOC.format(step="PolyaGammaGibbs", family="logistic")
    name = "polya_gamma_gibbs"
    sampler: ClassVar[ModuleType] = polya_gamma
    family: ClassVar[str] = "logistic"
