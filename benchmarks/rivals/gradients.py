"""The processor seconds of a gradient in NumPyro, whose runs of few draws are all compilation."""

import os
import time
from typing import Any

CALLS = 20


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
