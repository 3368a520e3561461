"""A tree of calibrated nodes knows what they miss: in one pass, through checkpoints, whichever label is +1."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.laplace import to_full

LOGISTIC, PRIOR = check_family("logistic"), bc.priors.Normal(0, 4)


def rows(first):
    rng = np.random.default_rng(0)
    X = np.exp(0.7 * rng.normal(size=(8000, 6))) - 1.3
    y = X[:, 0] - 1.5 + rng.logistic(size=8000) > 0
    order = np.concatenate([[np.argmax(y == first)], np.arange(8000)])  # the label met first
    return X[order], y[order]


@pytest.fixture(params=[False, True], ids=["the first label is -1", "the first label is +1"])
def streamed(request):
    X, y = rows(request.param)
    stream = bc.stream(size=60, leaf_rows=1000, intercept=True, random_state=1)
    return X, y, stream.partial_fit(X[:5000], y[:5000])


def test_the_mode_and_the_curvature_of_all_rows_are_met_in_one_pass(streamed, tmp_path):
    X, y, stream = streamed
    stream.save(tmp_path / "stream.ckpt")
    again = bc.read_stream(tmp_path / "stream.ckpt")
    core, resumed = (each.partial_fit(X[5000:], y[5000:]).coreset() for each in (stream, again))
    for name in ("point", "score", "precision"):
        np.testing.assert_array_equal(getattr(core.shortfall, name), getattr(resumed.shortfall, name))

    truth = bc.find_map(bc.all_rows(X, y, intercept=True, progressbar=False), "logistic", PRIOR)
    own, transport = bc.find_map(core, "logistic", PRIOR), to_full(core, LOGISTIC, PRIOR)
    white = np.linalg.inv(truth.factor)

    def off(covariance):
        return np.abs(white @ covariance @ white.T - np.eye(7)).max()

    assert np.linalg.norm(white @ (transport.end - truth.beta)) < 0.05
    assert off(transport.matrix @ own.covariance @ transport.matrix.T) < 0.05
    assert off(own.covariance) > 0.1
