"""Elementary functions of compiled loops: exponentials that vectorise, and random numbers that are hashes."""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.types import FloatArray

ROWS = 1024  # that a likelihood takes at a time: their scratch stays in cache
ATANH = np.array([1.0 / (2 * j + 1) for j in range(16, -1, -1)])  # the series of atanh(s) / s in s^2, highest first
REACH = 700.0  # exp overflows at 709
_EXP = np.array([1.0 / math.factorial(j) for j in range(13, -1, -1)])

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@jit
def exp_minus(x: FloatArray, powers: FloatArray, bits: NDArray[np.int64]) -> None:
    """Replace each x >= -700 by exp(-x), to 4e-16, in loops that vectorise, as libm's exp does not.

    exp(-x) = 2^n exp(r), abs(r) <= log(2) / 2. Adding 1.5 * 2^52 leaves n in the low bits of `powers`, and
    `bits`, the same memory as integers, shifts it into the exponent.
    """
    for lane in range(x.size):
        t = max(-x[lane], -700.0)
        shifted = t * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        powers[lane] = shifted
        x[lane] = (t - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    for lane in range(x.size):
        bits[lane] = (bits[lane] + 1023) << 52
    for lane in range(x.size):
        r = x[lane]
        total = _EXP[0]
        for j in range(1, 14):
            total = total * r + _EXP[j]
        x[lane] = total * powers[lane]


@jit
def exp_up_to(x: FloatArray, out: FloatArray, powers: FloatArray) -> None:
    """Write exp(x) to `out`, that of `REACH` for any above; the last argument is scratch."""
    for n in range(x.size):
        out[n] = -min(x[n], REACH)
    exp_minus(out, powers, powers.view(np.int64))


def bounded_exp(x: FloatArray) -> FloatArray:
    """Return exp(x) as NumPy has it, that of `REACH` for any above."""
    return np.exp(np.minimum(np.asarray(x, dtype=np.float64), REACH))


@jit
def mix(x: np.uint64) -> np.uint64:
    """Return the splitmix64 finaliser of x (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> _S30)) * _MIX1
    x = (x ^ (x >> _S27)) * _MIX2
    return x ^ (x >> _S31)


@jit
def hash_uniform(seed: np.uint64, position: np.uint64, arrival: np.uint64) -> float:
    """Return a number in (0, 1) that is a function of seed, position and arrival number."""
    x = mix(seed + _GOLDEN * (position + np.uint64(1)))
    x = mix(x + _GOLDEN * (arrival + np.uint64(1)))
    return (float(x >> _S11) + 0.5) * 1.1102230246251565e-16  # 2^-53
