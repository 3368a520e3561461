"""Certificates of draws with groups: verdicts, effects, and what must not be certified."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import bayescore as bc
from bayescore.diagnostics.certificate import nodes
from bayescore.diagnostics.certificate.marginal import MarginalStrategy
from bayescore.diagnostics.results import Level
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.samplers.posterior import read_posterior
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.coresets.test_multilevel import build, frame
from tests.models.grouped_rows import grouped

TOLD = {"random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    return grouped(3000, 60)[0]


@pytest.fixture(scope="module")
def core(rows):
    return build(rows)


def certify(idata, core, rows, **options):
    return bc.certify(idata, core, frame(rows), label="y", progressbar=False, **options)


@pytest.fixture(scope="module")
def idata(core):
    return bc.sample(core, **TOLD)


@pytest.fixture(scope="module")
def found(idata, core, rows):
    return certify(idata, core, rows, max_draws=1000)


def test_a_good_coreset_is_certified_with_its_effects(found):
    assert isinstance(found, bc.Certificate)
    assert found.level is Level.CERTIFIED
    assert found.n_passes == 1
    assert found.log_ratio_sd < 0.2
    assert list(found.coordinates.index)[-1] == "log sigma_county"
    assert len(found.effects) == 60
    assert found.effects["mean_error_sd"].abs().quantile(0.99) < 0.02
    assert np.isfinite(found.elpd_logo)
    assert repr(found).startswith("CERTIFIED\n")


def test_effects_know_rows_and_shares_of_their_groups(found, rows):
    y = frame(rows).assign(y=rows.y > 0).groupby("county")["y"].agg(["mean", "size"])
    effects = found.effects.loc["county"].droplevel("effect")
    np.testing.assert_allclose(effects["share"], y["mean"].reindex(effects.index))
    np.testing.assert_array_equal(effects["weight"], y["size"].reindex(effects.index))


def test_the_sd_of_effects_is_printed(found):
    sigma = found.idata.posterior["sigma_county"].values
    printed = re.search(r"sd of the effects of county ([\d.]+) \(95% interval ([\d.]+) to ([\d.]+)\)", repr(found))
    shown = [float(each) for each in printed.groups()]
    assert shown == pytest.approx([np.exp(np.log(sigma).mean()), *np.quantile(sigma, [0.025, 0.975])], rel=0.03)


def test_rows_of_arrays_bring_their_groups(rows):
    X, group = rows.X[:, 1:], np.array([f"c{code}" for code in rows.group[:, 0]])
    told = {"intercept": True, "progressbar": False}
    core = bc.build_coreset(X, rows.y, groups=group, method="multilevel", random_state=0, **told)
    idata = bc.sample(core, **TOLD)
    assert bc.certify(idata, core, X, rows.y, groups=group, progressbar=False).level is Level.CERTIFIED
    whole = bc.all_rows(X, rows.y, groups=group, **told)
    assert bc.certify(idata, core, whole, progressbar=False).level is Level.CERTIFIED


def test_corrected_draws_are_draws_of_all_variables(found, idata):
    posterior = found.idata.posterior
    assert posterior["u_county"].shape == (4, 250, 60)
    assert posterior["sigma_county"].shape == (4, 250)
    gap = posterior["u_county"].values.mean(axis=(0, 1)) - idata.posterior["u_county"].values.mean(axis=(0, 1))
    assert np.abs(gap / idata.posterior["u_county"].values.std(axis=(0, 1))).max() < 0.3
    assert "resampled" in posterior.attrs["corrected"]


def test_a_prior_that_moves_the_mode_away_is_noticed(core, rows):
    """Rows are condensed under weak priors; far from there pseudo-rows are no longer the rows."""
    far = bc.sample(core, prior=bc.priors.Normal(0.0, 0.02), group_prior=bc.priors.HalfNormal(0.05), **TOLD)
    verdict = certify(far, core, rows)
    assert verdict.level is not Level.CERTIFIED
    assert verdict.log_ratio_sd > 0.1


def test_a_coreset_of_other_rows_is_not_certified(rows):
    half = rows.take(np.concatenate([np.arange(1500), np.arange(1500)]))  # as many rows, of the first half
    other = build(half)
    verdict = certify(bc.sample(other, **TOLD), other, rows)
    assert verdict.level is Level.NOT_CERTIFIED


def test_changed_and_foreign_draws_are_refused_before_any_pass(idata, core, rows, found):
    for name, factor, said in (("u_county", 1.2, "misses Stein's identity"), ("sigma_county", 1.01, "were changed")):
        posterior = idata.posterior[name]
        kept = posterior.values.copy()
        try:
            idata.posterior[name] = posterior.copy(data=kept * factor)
            verdict = certify(idata, core, rows)
        finally:
            idata.posterior[name] = posterior.copy(data=kept)
        assert verdict.level is Level.NOT_CERTIFIED
        assert said in verdict.text
        assert verdict.n_passes == 0
    assert "corrected ones already" in certify(found.idata, core, rows).text
    assert "another coreset" in certify(idata, forged(core, core.group[:, 0] == 0, 1.01), rows).text


def test_too_few_draws_certify_nothing(core, rows):
    few = bc.sample(core, draws=60, tune=300, chains=2, **TOLD)
    assert certify(few, core, rows).level is Level.NOT_CERTIFIED


def forged(core, which, factor):
    """The coreset with weights of some rows changed, others' scaled so that their total stays."""
    weights = np.where(which, factor * core.weights, core.weights)
    return replace(core, weights=weights * (core.weights.sum() / weights.sum()))


@pytest.fixture(scope="module")
def many():
    rng, group = np.random.default_rng(0), np.arange(4000) % 100  # of 40 rows each
    X = np.column_stack([np.ones(4000), rng.normal(size=(4000, 2))])
    eta = X @ [-0.5, -0.5, 0.5] + rng.normal(size=100)[group]
    y = np.where(rng.random(4000) < special.expit(eta), 1, -1).astype(np.int8)
    rows = WeightedData(X, y, np.ones(4000), np.arange(4000), group=group[:, None])
    core = build(rows)
    nearest_0 = np.abs(bc.sample(core, **TOLD).posterior["u_county"].values.mean(axis=(0, 1))).argmin()
    return rows, core, int(nearest_0)


@pytest.mark.slow
def test_a_wrong_sd_of_one_effect_is_not_certified(many):
    """One of 100 groups with half its weights: its effect, near 0, is too wide, its mean right."""
    rows, core, g = many
    half = forged(core, core.group[:, 0] == g, 0.5)
    verdict = certify(bc.sample(half, **TOLD), half, rows, max_draws=2000)
    assert verdict.level is not Level.CERTIFIED
    assert verdict.effects["log_sd_error"].iloc[g] > 0.2
    assert verdict.effects["mean_error_sd"].abs().max() < 0.1  # which says nothing of it
    assert "the worst sd by" in verdict.text


def test_an_effect_narrower_than_the_nodes_is_not_certified(many):
    """A hundredth of the weights leaves nodes almost three times too wide, in the right place."""
    rows, core, g = many
    few = forged(core, core.group[:, 0] == g, 0.01)
    verdict = certify(bc.sample(few, **TOLD), few, rows)
    assert verdict.level is Level.NOT_CERTIFIED
    assert "1 group effects lie where the coreset does not look" in verdict.text


def test_a_density_without_a_gradient_is_told(core, idata):
    weigher = MarginalStrategy(idata, read_posterior(idata, "idata"), core, None)
    assert weigher.missed_identities() == ""
    weigher.posterior.draws[0, 0, -1] = -np.inf
    assert "no finite gradient" in weigher.missed_identities()


def test_too_much_memory_is_refused_before_the_pass_with_what_to_do(core, idata, monkeypatch):
    """Nine nodes a group where effects are narrow, and as many as the groups ask for where they are wide."""
    weigher = MarginalStrategy(idata, read_posterior(idata, "idata"), core, None)
    with pytest.warns(UserWarning, match="all rows are kept as they are"):
        small = build(grouped(120, 40)[0])
    arguments = CollapsedTarget.of(small, weigher.beta.family, weigher.priors, 40).arguments()
    sizes = []
    narrow, wide = (np.full((500, core.n_features + 1), np.log(sigma)) for sigma in (0.3, 8.0))
    monkeypatch.setattr(nodes, "MAX_BYTES", 0)
    for theta in (narrow, wide):
        with pytest.raises(DataError, match="build with fewer groups") as error:
            nodes.check_bytes(theta, arguments)
        sizes.append(int(re.search(r"take ([\d,]+) bytes", str(error.value))[1].replace(",", "")))
    assert sizes[0] == 8 * 500 * (9 * 40 + 1 + 11 * 41)
    assert sizes[1] > 1.2 * sizes[0]
    monkeypatch.setattr(nodes, "MAX_BYTES", sizes[0])
    nodes.check_bytes(narrow, arguments)
    monkeypatch.setattr(nodes, "MAX_BYTES", sizes[0] // 2)
    weigher.posterior.draws[..., -1] = np.log(0.3)
    with pytest.raises(DataError, match="give max_draws=1"):
        weigher.weigh(np.arange(500))


def test_epsilon_of_pseudo_rows_is_none(found):
    assert np.isnan(found.epsilon)
