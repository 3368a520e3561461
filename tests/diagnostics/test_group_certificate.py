"""Certificates of draws with groups: verdicts, effects, and what must not be certified."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level
from tests.coresets.test_multilevel import build, frame
from tests.models.grouped_rows import grouped

TOLD = {"random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    return grouped(3000, 60)[0]


@pytest.fixture(scope="module")
def core(rows):
    return build(rows)


def certify(idata, core, rows):
    return bc.certify(idata, core, frame(rows), label="y", progressbar=False)


@pytest.fixture(scope="module")
def idata(core):
    return bc.sample(core, **TOLD)


@pytest.fixture(scope="module")
def found(idata, core, rows):
    return certify(idata, core, rows)


def test_a_good_coreset_is_certified_with_its_effects(found):
    assert found.level is Level.CERTIFIED
    assert found.n_passes == 1
    assert found.log_ratio_sd < 0.2
    assert list(found.coordinates.index)[-1] == "log sigma"
    assert len(found.effects) == 60
    assert found.effects["mean_error_sd"].abs().quantile(0.99) < 0.02
    assert np.isfinite(found.elpd_logo)
    assert "certified" in repr(found)


def test_rows_of_arrays_bring_their_groups(rows):
    X, group = rows.X[:, 1:], np.array([f"c{code}" for code in rows.group[:, 0]])
    told = {"intercept": True, "progressbar": False}
    core = bc.build_coreset(X, rows.y, groups=group, method="multilevel", random_state=0, **told)
    idata = bc.sample(core, **TOLD)
    assert bc.certify(idata, core, X, rows.y, groups=group, progressbar=False).level is Level.CERTIFIED
    whole = bc.full_data(X, rows.y, groups=group, **told)
    assert bc.certify(idata, core, whole, progressbar=False).level is Level.CERTIFIED


def test_corrected_draws_are_draws_of_all_variables(found, idata):
    posterior = found.idata.posterior
    assert posterior["u"].shape == (4, 125, 60)
    assert posterior["sigma"].shape == (4, 125)
    gap = posterior["u"].values.mean(axis=(0, 1)) - idata.posterior["u"].values.mean(axis=(0, 1))
    assert np.abs(gap / idata.posterior["u"].values.std(axis=(0, 1))).max() < 0.3
    assert "resampled" in posterior.attrs["corrected"]


def test_a_prior_that_moves_the_mode_away_is_noticed(core, rows):
    """Rows are condensed under weak priors; far from there pseudo-rows are no longer the rows."""
    far = bc.sample(core, prior=bc.Normal(0.0, 0.02), group_prior=bc.HalfNormal(0.05), **TOLD)
    verdict = certify(far, core, rows)
    assert verdict.level is not Level.CERTIFIED
    assert verdict.log_ratio_sd > 0.1


def test_a_coreset_of_other_rows_is_not_certified(rows):
    half = rows.take(np.concatenate([np.arange(1500), np.arange(1500)]))  # as many rows, of the first half
    other = build(half)
    verdict = certify(bc.sample(other, **TOLD), other, rows)
    assert verdict.level is Level.NOT_CERTIFIED


def test_changed_and_foreign_draws_are_refused_before_any_pass(idata, core, rows, found):
    for name in ("u", "sigma"):
        posterior = idata.posterior[name]
        kept = posterior.values.copy()
        try:
            idata.posterior[name] = posterior.copy(data=kept * 1.01)
            verdict = certify(idata, core, rows)
        finally:
            idata.posterior[name] = posterior.copy(data=kept)
        assert verdict.level is Level.NOT_CERTIFIED
        assert "were changed" in verdict.text
        assert verdict.n_passes == 0
    assert "corrected ones already" in certify(found.idata, core, rows).text
    assert "another coreset" in certify(idata, build(rows, small=50), rows).text


def test_too_few_draws_certify_nothing(core, rows):
    few = bc.sample(core, draws=60, tune=300, chains=2, **TOLD)
    assert certify(few, core, rows).level is Level.NOT_CERTIFIED
