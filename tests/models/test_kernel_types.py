"""Kernels meet arrays of one type, so that a model of one column, or with offsets, compiles nothing anew."""

from dataclasses import replace

import numba
import numpy as np
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.models.posterior import posterior
from tests.conftest import make_rows

PRIOR = bc.priors.Normal(0.0, 2.5)


def rows_of(n_features, offset):
    rows = make_rows(n_features=n_features, weights=False)
    own = np.linspace(-1.0, 1.0, len(rows)) if offset else None
    return replace(rows, offset=own, group=np.arange(len(rows))[:, None] % 4)


def flat(*shape):
    return posterior(rows_of(*shape), "logistic", PRIOR).arguments()


def marginal(*shape):
    target = CollapsedTarget.of(rows_of(*shape), check_family("logistic"), (PRIOR, bc.priors.HalfNormal(1.0)), 4)
    return target.arguments()


def some_groups(*shape):
    return marginal(*shape).of_groups(np.array([2, 0]), np.ones(2))


@pytest.mark.parametrize("arguments", [flat, marginal, some_groups])
@pytest.mark.parametrize("shape", [(1, False), (1, True), (3, True)])
def test_the_arguments_of_densities_have_the_types_of_any_other_rows(arguments, shape):
    found, usual = (numba.typeof(arguments(*own)) for own in (shape, (3, False)))
    assert found == usual
