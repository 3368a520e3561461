"""Draws of the posterior of several group terms without PyMC: the same on every machine, in seconds.

A crowd of walkers goes by turns: beta and effects given their covariance by Hamiltonian Monte Carlo in the coordinates
of Laplace's approximation, sds and correlations given the effects by random-walk Metropolis. Each walker's last place
is a draw, independent of the others. Trajectories are short, so that rounding stays rounding.
"""

from typing import Any
from unittest import mock

import numpy as np
from scipy import linalg, stats

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.predictor import multipliers
from tests.arviz_draws import inference_data

SWEEPS, LEAPS, STEP = 16, 4, 0.5
MOVES = 4  # of a covariance, a sweep
PRIOR_SD, GROUP_PRIOR, LKJ = 4.0, (3.0, 2.5), 2.0  # the defaults of `sample`


def sampled(core: Any) -> Any:
    """Return what `sample` makes of these draws."""
    told = {"draws": 500, "chains": 2, "random_seed": 5, "initvals": []}  # which spares NUTS its mass matrix
    with mock.patch("pymc.sample", return_value=drawn(core)):
        return bc.sample(core, **told, progressbar=False)


def drawn(core: Any, *, chains: int = 2, draws: int = 500, seed: int = 5) -> Any:
    """Return draws of a coreset's posterior under the default priors, as `pm.sample` returns them."""
    walk = _Walk(core, chains * draws, np.random.default_rng(seed))
    for sweep in range(SWEEPS):
        if sweep in (0, SWEEPS // 8, SWEEPS // 4):
            walk.approximate()
        walk.move_effects()
        walk.move_covariances()
        walk.move_scales()
    values: dict[str, Any] = {"beta": walk.theta[:, : walk.p]}
    dims, coords = {"beta": ["feature"]}, {"feature": list(core.feature_names)}
    for own, u, (log_sd, z) in zip(core.groups, walk.effects(walk.theta), walk.hyper, strict=True):
        name, q = own.name, len(own.effects)
        values |= {f"sigma_{name}": np.exp(log_sd), f"u_{name}": u}
        coords[name], dims[f"u_{name}"] = list(own.levels), [name]
        if q == 1:
            values |= {f"sigma_{name}": np.exp(log_sd[:, 0]), f"u_{name}": u[:, :, 0]}
        else:
            values[f"rho_{name}"] = np.tanh(z)
            coords[f"{name}_effect"], coords[f"{name}_pair"] = list(own.effects), [", ".join(own.effects)]
            dims |= {f"u_{name}": [name, f"{name}_effect"], f"sigma_{name}": [f"{name}_effect"]}
            dims[f"rho_{name}"] = [f"{name}_pair"]
    posterior = {name: each.reshape(chains, draws, *each.shape[1:]) for name, each in values.items()}
    groups = {"posterior": posterior, "sample_stats": {"diverging": np.zeros((chains, draws), dtype=bool)}}
    return inference_data(groups, coords=coords, dims=dims)


class _Walk:
    """Walkers: `theta`, shape (S, p + E), is beta and effects, `hyper` log sds and Fisher's z of each factor."""

    def __init__(self, core: Any, n_walkers: int, rng: np.random.Generator) -> None:
        self.core, self.rng, self.p = core, rng, core.n_features
        blocks = [core.X]
        for own, codes in zip(core.groups, core.group.T, strict=True):
            z = multipliers(core.X, core.design, own)
            member = codes[:, None] == np.arange(len(own))
            blocks.append((member[:, :, None] * z[:, None]).reshape(len(core), -1))
        self.W, self.offset = np.hstack(blocks), 0.0 if core.offset is None else core.offset
        self.family = check_family(core.family)
        self.cuts = np.cumsum([block.shape[1] for block in blocks])[:-1]
        self.theta = np.zeros((n_walkers, self.W.shape[1]))
        sizes = [len(own.effects) for own in core.groups]
        self.hyper = [[np.zeros((n_walkers, q)), np.zeros((n_walkers, q * (q - 1) // 2))] for q in sizes]

    def effects(self, theta: np.ndarray) -> list[np.ndarray]:
        parts = np.split(theta, self.cuts, axis=1)[1:]
        return [part.reshape(len(part), len(own), -1) for own, part in zip(self.core.groups, parts, strict=True)]

    def log_density(self, theta: np.ndarray, inverses: list[np.ndarray]) -> np.ndarray:
        """Return log p of beta and effects given the inverses of their covariances, shape (S,)."""
        eta = theta @ self.W.T + self.offset
        value = self.family.log_p(eta, self.core.y) @ self.core.weights
        value -= 0.5 * (theta[:, : self.p] ** 2).sum(axis=1) / PRIOR_SD**2
        for u, inverse in zip(self.effects(theta), inverses, strict=True):
            value -= 0.5 * ((u @ inverse) * u).sum(axis=(1, 2))
        return value

    def slope(self, theta: np.ndarray, inverses: list[np.ndarray]) -> np.ndarray:
        """Return the gradient of `log_density`, shape (S, p + E)."""
        eta, effects = theta @ self.W.T + self.offset, self.effects(theta)
        pulls = [(u @ inverse).reshape(len(u), -1) for u, inverse in zip(effects, inverses, strict=True)]
        own = (self.core.weights * self.family.score(eta, self.core.y)) @ self.W
        return own - np.hstack([theta[:, : self.p] / PRIOR_SD**2, *pulls])

    def inverses(self) -> list[np.ndarray]:
        return [np.linalg.inv(covariance(*own)) for own in self.hyper]

    def approximate(self) -> None:
        """Set `factor`, L L' the covariance at the mode given the walkers' mean covariances; at first, start there."""
        means = [np.linalg.inv(covariance(*own).mean(axis=0)) for own in self.hyper]
        prior = linalg.block_diag(
            np.eye(self.p) / PRIOR_SD**2,
            *(np.kron(np.eye(len(own)), inverse) for own, inverse in zip(self.core.groups, means, strict=True)),
        )
        mode = self.theta.mean(axis=0)
        for _ in range(20):
            slope = self.slope(mode[None], [inverse[None] for inverse in means])
            c = self.core.weights * self.family.curvature(self.W @ mode + self.offset, self.core.y)
            H = (self.W.T * c) @ self.W + prior
            mode = mode + np.linalg.solve(H, slope[0])
        start = not self.theta.any()
        self.factor = np.linalg.cholesky(np.linalg.inv(H))
        if start:
            self.theta = mode + self.rng.standard_normal(self.theta.shape) @ self.factor.T

    def move_effects(self) -> None:
        L, inverses = self.factor, self.inverses()
        momentum = self.rng.standard_normal(self.theta.shape)
        at, slope = self.theta, self.slope(self.theta, inverses)
        energy = self.log_density(at, inverses) - 0.5 * (momentum**2).sum(axis=1)
        step = STEP * self.rng.uniform(0.7, 1.0, (len(at), 1))
        for _ in range(LEAPS):
            momentum = momentum + 0.5 * step * slope @ L
            at = at + step * momentum @ L.T
            slope = self.slope(at, inverses)
            momentum = momentum + 0.5 * step * slope @ L
        there = self.log_density(at, inverses) - 0.5 * (momentum**2).sum(axis=1)
        taken = np.log(self.rng.random(len(at))) < there - energy
        self.theta = np.where(taken[:, None], at, self.theta)

    def move_scales(self) -> None:
        """Move an sd and its effects together, which an sd near 0 needs."""
        first = self.p
        for own, grouping in zip(self.hyper, self.core.groups, strict=True):
            G, q = len(grouping), own[0].shape[1]
            for k in range(q):
                here = self.log_density(self.theta, self.inverses()) + self.density_of_sds()
                by = 0.7 * self.rng.standard_normal(len(self.theta))
                theta, log_sd = self.theta.copy(), own[0].copy()
                theta[:, first + k : first + G * q : q] *= np.exp(by)[:, None]
                own[0][:, k] += by
                there = self.log_density(theta, self.inverses()) + self.density_of_sds()
                taken = np.log(self.rng.random(len(by))) < there - here + G * by
                self.theta = np.where(taken[:, None], theta, self.theta)
                own[0][:] = np.where(taken[:, None], own[0], log_sd)
            first += G * q

    def density_of_sds(self) -> np.ndarray:
        """Return log p of all covariances, but for the effects' density's exponent."""
        parts = zip(self.hyper, self.effects(self.theta), strict=True)
        return sum(density_of_covariance(0.0 * u, *own) for own, u in parts)

    def move_covariances(self) -> None:
        for own, u in zip(self.hyper, self.effects(self.theta), strict=True):
            here = density_of_covariance(u, *own)
            for _ in range(MOVES):
                there = [part + 1.5 / np.sqrt(2.0 * u.shape[1]) * self.rng.standard_normal(part.shape) for part in own]
                value = density_of_covariance(u, *there)
                taken = np.log(self.rng.random(len(u))) < value - here
                here = np.where(taken, value, here)
                own[:] = [np.where(taken[:, None], new, old) for new, old in zip(there, own, strict=True)]


def covariance(log_sd: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the covariances of effects, shape (S, q, q)."""
    q, sd = log_sd.shape[1], np.exp(log_sd)
    R = np.tile(np.eye(q), (len(sd), 1, 1))
    i, j = np.triu_indices(q, 1)
    R[:, i, j] = R[:, j, i] = np.tanh(z)
    return sd[:, :, None] * R * sd[:, None]


def density_of_covariance(u: np.ndarray, log_sd: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return log p of log sds and Fisher's z given the effects, shape (S,); up to two effects of a level."""
    S, (nu, scale) = covariance(log_sd, z), GROUP_PRIOR
    spread = np.einsum("sgq,sqr,sgr->s", u, np.linalg.inv(S), u)
    value = -0.5 * (spread + u.shape[1] * np.linalg.slogdet(S)[1])
    value += (stats.t.logpdf(np.exp(log_sd), nu, scale=scale) + log_sd).sum(axis=1)
    return value + LKJ * np.log1p(-(np.tanh(z) ** 2)).sum(axis=1)  # det(R)^(eta - 1), and that of Fisher's z
