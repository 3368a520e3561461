"""Whether chains that have just been drawn have mixed."""

import warnings
from typing import Any

import numpy as np

from bayescore.compat import effective_size, split_rhat
from bayescore.limits import MAX_RHAT, MIN_ESS_A_CHAIN
from bayescore.samplers.inference_data import coefficients

FEWEST_DRAWS = 100  # draws of a chain; fewer tell nothing of mixing
MIN_DRAWS_FOR_RHAT = 1000  # draws of a chain; with fewer R-hat is noisy


def warn_unless_mixed(idata: Any, others: str) -> None:
    """Warn where the smallest effective sample size or the largest R-hat says that the chains have not mixed.

    Both are rank-normalised, of beta and of log sigma where there are groups. `others` names the samplers to try
    instead.
    """
    beta, features = coefficients(idata, "the posterior")
    posterior = idata["posterior"]
    for name in (str(name) for name in posterior.data_vars if str(name).startswith("sigma_")):
        sigma = posterior[name].transpose("chain", "draw").values
        with np.errstate(divide="ignore"):
            beta = np.concatenate([beta, np.log(sigma)[..., None]], axis=2)
        features = (*features, f"log {name}")
    chains, draws, _ = beta.shape
    if draws < FEWEST_DRAWS:
        return
    with np.errstate(all="ignore"):  # a chain that stood still
        each = np.moveaxis(beta, 2, 0)
        sizes = np.array([effective_size(one, "bulk") for one in each])
        many = chains > 1 and draws >= MIN_DRAWS_FOR_RHAT
        ratios = np.array([split_rhat(one) if many else 1.0 for one in each])
    found = []
    if not sizes.min() >= chains * min(MIN_ESS_A_CHAIN, draws / 10):
        name = features[np.argmin(sizes)]
        found.append(f"the effective sample size of {name} is {sizes.min():.0f} of {chains * draws} draws")
    if not ratios.max() <= MAX_RHAT:
        found.append(f"R-hat of {features[np.argmax(ratios)]} is {ratios.max():.3g}")
    if found:
        other = f", or sampler={others}" if others else ""
        warnings.warn(
            f"the chains have not mixed, {' and '.join(found)}: take more draws, a larger thin{other}",
            UserWarning,
            stacklevel=3,
        )
