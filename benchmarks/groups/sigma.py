"""How exact is the quadrature of one effect at any sigma, beside nine nodes of Gauss and Hermite?

`sigma`: 42 groups of 1 to 1e6 rows, linear predictors alike or spread, labels of one kind, one in fifty of the other,
and mixed, by family and sigma. Largest errors over the groups against the trapezium rule on 20,001 points that cover
the integrand down to e^-40 of its top: of the log integral in nats, and of the second moment relative to it. `_9` are
those of nine nodes for all groups. `nodes` are the mean and the largest number of a group.
"""

from dataclasses import replace

import numpy as np

from bayescore.diagnostics.certificate.nodes import core_moments
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.models.groups.marginal_mode import at_point
from bayescore.models.groups.nodes import Rules, lay_out
from bayescore.models.groups.rows import look_at_rows
from bayescore.numerics.elementary import EffectNodes
from bayescore.priors import Normal
from bayescore.priors.groups import HalfStudentT
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.tables import publish

SIGMAS = (0.01, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 15.0)
FAMILIES = ("logistic", "probit", "cloglog")
SIZES = (1, 2, 5, 20, 100, 10_000, 1_000_000)
MOST_ROWS = 30  # of a group; larger ones have weights
POINTS = 20_001
TURNS = 12  # that place nine nodes about the effects at a given sigma
PRIORS = (Normal(0.0, 4.0), HalfStudentT(3.0, 2.5))


def made(spread: float = 1.0, tilt: float = -1.0) -> tuple[WeightedData, int]:
    """Return rows of groups of all sizes, with three kinds of labels, at two sets of linear predictors."""
    eta, y, w, group = [], [], [], []
    rng = np.random.default_rng(0)
    for size in SIZES:
        n = min(size, MOST_ROWS)
        for positives in (0.0, 0.02, 0.5):
            for own_spread, own_tilt in ((0.0, 0.0), (spread, tilt)):
                labels = np.where(np.arange(n) < np.ceil(positives * n), 1, -1)
                eta.append(own_tilt + own_spread * rng.normal(size=n))
                y.append(labels)
                w.append(np.full(n, size / n))
                group.append(np.full(n, len(group)))
    offset, labels, weights, codes = (np.concatenate(each) for each in (eta, y, w, group))
    n = len(offset)
    X = np.zeros((n, 1))  # the linear predictors are offsets
    rows = WeightedData(X, labels.astype(np.int8), weights, np.arange(n), offset=offset, group=codes[:, None])
    return rows, len(group)


def target_at(rows: WeightedData, n_groups: int, family: str, sigma: float) -> CollapsedTarget:
    """Return the target with the quadrature for a given sigma."""
    theta, known = np.array([0.0, np.log(sigma)]), check_family(family)
    look = look_at_rows(rows, known, n_groups)
    none = np.zeros(n_groups + 1)
    point = at_point(look, theta, EffectNodes(none, none), PRIORS)
    for _ in range(TURNS):
        point = at_point(look, theta, point.likelihoods.nodes(theta), PRIORS)
    target = CollapsedTarget(rows, known, PRIORS, n_groups, point, Rules.normal(n_groups))
    return replace(target, rules=target.chosen_rules())


def exact(rows: WeightedData, n_groups: int, family: str, sigma: float) -> np.ndarray:
    """Return log integrals and second moments on the grid, shape (2, G)."""
    found, known = [], check_family(family)
    for g in range(n_groups):
        own = rows.take(np.flatnonzero(rows.group[:, 0] == g))
        low, high = -12.0 * sigma - 25.0, 12.0 * sigma + 25.0
        for turn in range(4):  # from all of the prior to where the integrand is
            b = np.linspace(low, high, POINTS if turn == 3 else 4001)
            log_f = -0.5 * (b / sigma) ** 2 - np.log(sigma * np.sqrt(2.0 * np.pi))
            for eta, y, w in zip(own.offset, own.y, own.weights, strict=True):
                log_f += w * known.log_p(eta + b, y)
            near = np.flatnonzero(log_f > log_f.max() - 40.0)
            low, high = b[max(near[0] - 1, 0)], b[min(near[-1] + 1, len(b) - 1)]
        top = log_f.max()
        f = np.exp(log_f - top)
        found.append((top + np.log(f.sum() * (b[1] - b[0])), (f * b**2).sum() / f.sum()))
    return np.array(found).T


def errors(target: CollapsedTarget, truth: np.ndarray) -> tuple[float, float]:
    """Return the largest errors of log integrals and of second moments."""
    moments = core_moments(target.point.theta[None], target.arguments())[1]
    square = moments.effects.variance[0] + moments.effects.mean[0] ** 2
    gap = np.abs(moments.log_p[0, :-1] - truth[0]).max(), np.abs(square / truth[1] - 1.0).max()
    return float(gap[0]), float(gap[1])


@command("sigma")
def main() -> None:
    """Write the table."""
    rows, n_groups = made()
    found = []
    for family in FAMILIES:
        for sigma in SIGMAS:
            truth, target = exact(rows, n_groups, family, sigma), target_at(rows, n_groups, family, sigma)
            own = errors(target, truth)
            nine = errors(replace(target, rules=Rules.normal(n_groups)), truth)
            count = np.diff(lay_out(sigma, target.rules, 9)[0])[:-1]
            found.append({
                "family": family, "sigma": sigma, "log integral": own[0], "second moment": own[1],
                "log integral_9": nine[0], "second moment_9": nine[1], "nodes": count.mean(), "most nodes": count.max(),
            })  # fmt: skip
    publish("sigma", found, digits=3)
