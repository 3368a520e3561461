"""Gradients of samplers: how many there were, and the seconds of one.

NumPyro's are timed by themselves, as its runs of few draws are all compilation.
"""

import os
import time
from typing import Any

CALLS = 20


def total(idata: Any, name: str) -> float:
    """Return the sum of a sampler's statistic over the draws of all chains, warm-up included."""
    return float(sum(stats[name].sum() for stats in (idata.warmup_sample_stats, idata.sample_stats)))


def gradients(idata: Any) -> int:
    """Return those of all chains, warm-up included."""
    return int(total(idata, "n_steps"))


def jax_numpy() -> Any:
    """Return ``jax.numpy`` of double precision."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # else XLA reports that folding constants takes seconds
    import numpyro

    numpyro.enable_x64()
    import jax.numpy

    return jax.numpy


def timed_gradient(model: Any, *data: Any) -> tuple[float, float]:
    """Return the seconds of a gradient of the posterior of ``model(*data)``, JAX arrays, and those of compiling."""
    import jax
    from numpyro.infer.util import initialize_model

    begin = time.process_time()
    info = initialize_model(jax.random.PRNGKey(0), model, model_args=data, dynamic_args=True)
    gradient = jax.jit(lambda at, *data: jax.value_and_grad(info.potential_fn(*data))(at))
    at = info.param_info.z
    jax.block_until_ready(gradient(at, *data))  # compiles
    middle = time.process_time()
    for _ in range(CALLS):
        jax.block_until_ready(gradient(at, *data))
    return (time.process_time() - middle) / CALLS, middle - begin
