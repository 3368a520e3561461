"""The default sampler of rows without groups: `langevin` around the mode, `adaptive` in its length."""

from typing import Any

import numpy as np

from bayescore.compiled import jit_sums
from bayescore.data.matching import feature_names
from bayescore.models.density import log_density
from bayescore.models.posterior import TargetDensity
from bayescore.models.sparse_density import sparse_columns, sparse_log_density
from bayescore.samplers.adaptive import OPTIONS, Plan, run, statistics
from bayescore.samplers.frames import Dense
from bayescore.samplers.langevin import Density, density
from bayescore.samplers.method import Request, Sampler, mode_and_factor
from bayescore.types import FloatArray


@jit_sums
def _flat(theta: FloatArray, gradient: FloatArray, data: Any) -> float:
    return log_density(theta, gradient, *data)


@jit_sums
def _sparse(theta: FloatArray, gradient: FloatArray, data: Any) -> float:
    return sparse_log_density(theta, gradient, data)


FLAT, SPARSE = density("flat", _flat), density("sparse", _sparse)


def compiled_density(target: TargetDensity) -> tuple[Density, Any]:
    """Return the faster of the two compiled densities, which differ by rounding, and its data."""
    arguments, columns = target.arguments(), sparse_columns(target.rows.X)
    return (FLAT, arguments) if columns is None else (SPARSE, (columns, *arguments[1:]))


class Langevin(Sampler):
    """The declaration of the sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta."""
        from bayescore.compat import inference_data  # ArviZ is slow to import, and builders do without it

        plan = Plan.of(request, "sampling by langevin")
        target = request.target()
        mode, factor = mode_and_factor(target)
        noise = np.random.default_rng(request.streams[-1]).standard_normal((request.chains, len(mode)))
        frame = Dense.of(*compiled_density(target), mode, factor)
        drawn = run(frame, mode + 1.5 * noise @ factor.T, request.streams[:-1], plan)
        return inference_data(
            {"posterior": {"beta": drawn.theta}, "sample_stats": statistics(drawn)},
            coords={"feature": list(feature_names(request.data))},
            dims={"beta": ["feature"]},
        )


LANGEVIN = Langevin(
    name="langevin",
    about="Langevin steps that leave the normal part of the posterior exact, compiled, until the effective size is met",
    needs=("closed_form", "unimodal"),
    because="needs a density in closed form and cannot cross between spike and slab",
    options=OPTIONS,
)
