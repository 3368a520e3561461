"""A sampler that bayescore does not have, whole in one file: random-walk Metropolis, and what adding one takes."""

import numpy as np

from bayescore.samplers.method import ChainSampler, Option, Prepared, thin_option
from bayescore.validation import check_positive


def prepare(request):
    target = request.target()
    starts, factor = request.starts(target)
    return Prepared((target, request.options["width"] * factor / np.sqrt(target.n_features)), starts)


def advance(rng, theta, tuning, arguments, segment):
    target, scale = arguments
    here, _ = target.log_density(theta)
    for i in range(len(segment.draws)):
        accepted = 0
        for _ in range(segment.thin):
            proposal = theta + scale @ rng.standard_normal(len(theta))
            there, _ = target.log_density(proposal)
            if np.log(rng.random()) < there - here:
                theta, here, accepted = proposal, there, accepted + 1
        segment.draws[i], segment.values[i], segment.acceptance[i] = theta, here, accepted / segment.thin
    return theta, tuning


RANDOM_WALK = ChainSampler(
    name="random_walk",
    about="random-walk Metropolis",
    families=("probit",),
    needs=("gaussian",),
    because="was tried with normal priors only",
    options={
        "thin": thin_option(20),
        "width": Option(2.4, check_positive, "standard deviation of a step, in posterior sds"),
    },
    prepare=prepare,
    advance=advance,
)
