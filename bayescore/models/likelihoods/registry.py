"""The likelihoods that there are, by name, and the door through which each of them is passed.

They are symmetric, 1 - p(eta) = p(-eta): only then is p(y (x . beta)) the probability of a label y in {-1, +1}, and
signed rows z = y x all that a likelihood needs of the data.
"""

import numpy as np

from bayescore.types import Likelihood
from bayescore.validation import check_choice

LIKELIHOODS: dict[str, Likelihood] = {}
COMPILED = ("rows", "derivatives", "higher")  # what kernels call

_FAR = 1e4  # abs(eta) up to which all must be finite: steps of Newton and NUTS land there


def register(likelihood: Likelihood) -> Likelihood:
    """Make a likelihood known by its name, in this process, and return it.

    Parameters
    ----------
    likelihood : Likelihood
        A symmetric one, with the contract of `bayescore.types.Likelihood`.

    Raises
    ------
    TypeError
        If it is no `Likelihood`, lacks compiled functions, or two of its class are not equal.
    ValueError
        If it is not symmetric, its functions do not belong together or are not finite far out, or another one has its
        name.

    Notes
    -----
    Other processes, such as workers of Dask, must import the module that registers it.
    """
    if not isinstance(likelihood, Likelihood):
        raise TypeError(f"likelihood={likelihood!r} is no Likelihood; derive its class from bayescore.types.Likelihood")
    name = likelihood.name
    missing = [part for part in COMPILED if not hasattr(getattr(likelihood, part, None), "py_func")]
    if missing:
        raise TypeError(f"likelihood {name!r} lacks the compiled {', '.join(missing)}; see bayescore.types.Likelihood")
    if type(likelihood)() != likelihood:
        raise TypeError(
            f"likelihood {name!r} is not the same as another {type(likelihood).__name__}(), and would be unknown to "
            "other processes; make its class a frozen dataclass without fields"
        )
    if LIKELIHOODS.get(name, likelihood) != likelihood:
        raise ValueError(f"likelihood {name!r} is registered already, as {LIKELIHOODS[name]!r}; choose another name")
    eta = np.array([-30.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0])
    p = likelihood.probability(eta)
    gap = np.abs(p + p[::-1] - 1.0)
    if not (gap < 1e-9).all():
        worst = int(gap.argmax())
        raise ValueError(
            f"likelihood {name!r} is not symmetric: p({eta[worst]:g}) + p({-eta[worst]:g}) = "
            f"{p[worst] + p[-1 - worst]:g}, not 1. Signed rows y x stand for labels only if 1 - p(eta) = p(-eta)"
        )
    if not np.allclose(likelihood.log_p(eta), np.log(p), rtol=1e-6, atol=1e-12):
        raise ValueError(f"likelihood {name!r}: log_p is not the logarithm of probability; give both of one model")
    ends = np.array([-_FAR, _FAR])
    for part in ("log_p", "score", "curvature", "third"):
        if not np.isfinite(getattr(likelihood, part)(ends)).all():
            raise ValueError(f"likelihood {name!r}: {part} is not finite at eta = +-{_FAR:g}; mend its tails")
    LIKELIHOODS[name] = likelihood
    return likelihood


def check_likelihood(likelihood: "str | Likelihood", name: str = "likelihood") -> Likelihood:
    """Return the registered likelihood of that name, or `likelihood` itself if it is registered."""
    if isinstance(likelihood, Likelihood):
        if LIKELIHOODS.get(likelihood.name) != likelihood:
            raise TypeError(
                f"{name}={likelihood!r} is not registered; call bayescore.models.likelihoods.register with it first"
            )
        return likelihood
    return LIKELIHOODS[check_choice(likelihood, name, LIKELIHOODS)]
