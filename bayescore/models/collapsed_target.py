r"""The marginal posterior of (beta, log sigma): rows in groups, each group's effect integrated out by quadrature.

.. math:: \log\pi(\beta, \log\sigma) =
          \sum_g \log \int \prod_{n \in g} e^{w_n \ell(x_n \beta + o_n + b, y_n)} N(b; 0, \sigma^2) db +
          \log\pi_0(\beta) + \log\pi_0(\log\sigma)

Samplers, certificates and `find_map` take `CollapsedTarget`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from bayescore.data.coreset import Coreset
from bayescore.models.collapsed import CollapsedArguments, collapsed_density
from bayescore.models.effect_nodes import Rules
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.group_priors import GroupPrior
from bayescore.models.group_sums import THIRD, effect_multipliers, look_at_rows
from bayescore.models.lattice import Known, choose_rules
from bayescore.models.marginal_mode import Effects, MarginalPoint, at_point, marginal_mode
from bayescore.models.newton import Mode, NoModeError, find_mode
from bayescore.models.posterior import Derivatives, prior_part
from bayescore.models.priors import Prior, check_density
from bayescore.models.quadrature import LOG_WEIGHTS, NODES, normal_nodes
from bayescore.types import NO_OFFSET, FloatArray, WeightedData

_START = -0.7  # log sigma at which the mode is sought first
_MODE_TOLERANCE = 1e-3  # posterior sds
_NEAR, _TURNS = 0.1, 4  # posterior sds by which the mode may be off, and turns of quadrature and mode
_FINE_NODES = 41  # of `mode`
_FINE_TOLERANCE, _ENOUGH, _FINE_STEPS = 1e-4, 1e-2, 20  # posterior sds: to stop at, and to accept after all steps
_DIFFERENCE = 1e-3  # posterior sds, of the gradients whose differences are the Hessian
_LEAST_PRECISION = 0.5  # of log sigma: where rows say nothing about it the density is no normal one


def effect_column(rows: WeightedData) -> int:
    """Return the column by which rows multiply the effect of their group, see `effect_multipliers`."""
    constant = rows.design.constant if isinstance(rows, Coreset) else None
    return -1 if constant is None else constant


@dataclass(frozen=True, eq=False)
class CollapsedTarget:
    """The marginal posterior of (beta, log sigma) of weighted rows with groups."""

    rows: WeightedData  # `group` has one column
    family: Family
    priors: tuple[Prior, GroupPrior]  # of beta and of sigma
    n_groups: int
    point: MarginalPoint  # the mode
    rules: Rules  # of the groups' quadrature

    @classmethod
    def of(
        cls, rows: WeightedData, family: Family, priors: tuple[Prior, GroupPrior], n_groups: int
    ) -> "CollapsedTarget":
        """Find the mode of rows in memory."""
        check_density(priors[0], "sampling with groups").parts(rows.n_features)
        look = look_at_rows(rows, family, n_groups, effect_multipliers(rows, effect_column(rows)))
        start = np.append(np.zeros(rows.n_features), _START + math.log(family.unit))
        point = marginal_mode(look, start, priors, n_groups, tolerance=_MODE_TOLERANCE)
        target = cls(rows, family, priors, n_groups, point, Rules.normal(n_groups))
        for _ in range(_TURNS):  # where effects are not normal the steps above end some sds off, or do not begin
            target = replace(target, rules=target.chosen_rules())
            gradient = np.empty(rows.n_features + 1)
            collapsed_density(target.point.theta, gradient, target.arguments())
            if np.linalg.norm(target.factor.T @ gradient) < _NEAR:
                break
            try:
                mode = target.mode()
            except NoModeError:
                break
            point = at_point(look, mode.beta, target.point.likelihoods.nodes(mode.beta), priors)
            target = replace(target, point=replace(point, terms=mode.terms))
        return target

    def chosen_rules(self) -> Rules:
        """Return the rule that each group's effect asks for."""
        if self.family.quadratic:  # effects are normal
            return Rules.normal(self.n_groups)
        real, effects, third = slice(None, -1), self.point.effects, self.point.sums.own[:-1, THIRD]
        known = Known(
            self.point.theta, self.factor, effects.mean[real], effects.variance[real], third, effects.poor[real]
        )
        return choose_rules(known, replace(self, rules=Rules.normal(self.n_groups)).arguments())

    @property
    def column(self) -> int:
        """The column by which rows multiply the effect of their group."""
        return effect_column(self.rows)

    @property
    def effects(self) -> Effects:
        """Normal likelihoods of the effects at the mode."""
        return self.point.likelihoods

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L, L L' the inverse of minus the Hessian at the mode, shape (p + 1, p + 1)."""
        precision = self.point.terms.precision
        try:
            linalg.cholesky(precision)
        except linalg.LinAlgError:
            precision = precision.copy()
            precision[-1, :-1] = precision[:-1, -1] = 0.0
            precision[-1, -1] = max(precision[-1, -1], _LEAST_PRECISION)
        return factor_of_inverse(precision)

    def arguments(self) -> CollapsedArguments:
        """Return what the compiled density takes after the point and the gradient."""
        rows, effects, (prior, group_prior) = self.rows, self.effects, self.priors
        assert rows.group is not None
        codes = np.where(rows.group[:, 0] < 0, self.n_groups, rows.group[:, 0])
        return CollapsedArguments(
            np.ascontiguousarray(rows.X.T),
            rows.y.astype(np.float64),
            effect_multipliers(rows, effect_column(rows)),
            np.array(rows.weights),
            NO_OFFSET if rows.offset is None else rows.offset,
            codes.astype(np.int64),
            self.family,
            NODES,
            LOG_WEIGHTS,
            self.rules,
            prior.parts(rows.n_features),
            *group_prior.table,
            effects.beta,
            effects.peak,
            effects.information,
            np.ascontiguousarray(effects.slope),
            np.ones(self.n_groups + 1),
        )

    def mode(self) -> Mode:
        """Return the mode by finer quadrature than samplers need, and the Hessian by differences of gradients."""
        nodes, log_weights = normal_nodes(_FINE_NODES)
        fine = self.arguments()._replace(nodes=nodes, log_weights=log_weights)
        h = _DIFFERENCE * np.sqrt((self.factor**2).sum(axis=1))

        prior = self.priors[0]

        def at(theta: FloatArray) -> tuple[float, FloatArray]:  # without the prior of beta, which may have a kink
            gradient = np.empty(len(theta))
            value = collapsed_density(theta, gradient, fine) - float(prior.log_density(theta[:-1]))
            gradient[:-1] -= prior.gradient(theta[:-1])
            return value, gradient

        def terms(theta: FloatArray) -> Derivatives:
            value, gradient = at(theta)
            rows = [(at(theta - move)[1] - at(theta + move)[1]) / (2.0 * move.sum()) for move in np.diag(h)]
            precision, own = 0.5 * (np.array(rows) + np.array(rows).T), prior_part(theta[:-1], prior)
            gradient[:-1] += own.gradient
            precision[:-1, :-1] += own.precision
            return Derivatives(value + own.value, gradient, precision)

        try:
            return find_mode(terms, self.point.theta, tolerance=_FINE_TOLERANCE, max_steps=_FINE_STEPS)
        except NoModeError as error:  # rounding errors of quadrature can hide the last gains of the value
            if error.reached is None or error.reached.decrement > _ENOUGH:
                raise
            return error.reached
