"""Other random numbers for the statistical tests: BAYESCORE_TEST_SEED=1 shifts the seeds of all of them.

Random numbers come from a generator, which `numpy.random.default_rng` makes of a seed, or from a hash of a seed. Both
are given the shift beside the seed: a seed k draws other numbers under every shift, in tests, in the library, and in
PyMC. Data, coresets and draws change with it. The shift 0, the default, changes nothing.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bayescore.coresets import scores
from bayescore.numerics import sampling

VARIABLE = "BAYESCORE_TEST_SEED"
_STEP = np.uint64(1_000_003)  # a prime beyond the seeds in use: shifted ones are no other test's


def shift() -> int:
    """Return the shift that the environment asks for."""
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE}={text!r} must be a whole number, 0 or more; leave it out for the usual seeds")
    return int(text)


def shift_seeds(by: int, replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Shift all seeds from now on; `replace` sets an attribute of a module."""
    if by == 0:
        return
    plain = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        if seed is None or isinstance(seed, np.random.Generator | np.random.BitGenerator | np.random.RandomState):
            return plain(seed)
        whole = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        return plain(np.random.SeedSequence(whole.entropy, spawn_key=(*whole.spawn_key, by)))

    def hashed(function: Callable[..., Any], place: int) -> Callable[..., Any]:
        def shifted(*arguments: Any) -> Any:
            seed = np.uint64((int(arguments[place]) + by * int(_STEP)) % 2**64)
            return function(*arguments[:place], seed, *arguments[place + 1 :])

        return shifted

    replace(np.random, "default_rng", default_rng)
    replace(sampling, "_hash_uniforms", hashed(sampling._hash_uniforms, 1))
    replace(sampling, "arrivals_before", hashed(sampling.arrivals_before, 2))
    replace(scores, "_sketch", hashed(scores._sketch, 3))
