from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from bayescore import compat
from bayescore.report.compare import compare_posteriors
from bayescore.types import WeightedData

NAMES = ("mmd_whitened", "mmd", "mean_error_sd", "sd_error", "correlation_error", "tail_error_sd")


@pytest.fixture
def reference(posterior):
    return posterior(0)


def rows(n=30, n_features=3):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, np.int8(-1), np.int8(1))
    return WeightedData(rng.normal(size=(n, n_features)), y, np.ones(n), np.arange(n))


def test_table_has_values_errors_and_the_noise_floor(posterior, reference):
    result = compare_posteriors({"one": posterior(1), "two": posterior(2)}, reference, test=rows())
    assert list(result.metrics.index) == ["one", "two", "noise floor"]
    assert list(result.metrics) == [column for name in (*NAMES, "nll") for column in (name, f"{name}_mcse")]
    assert np.isfinite(result.metrics.to_numpy()).all()
    assert len(result.coordinates) == 6


def test_same_distribution_is_indistinguishable(posterior, reference):
    verdict = compare_posteriors(posterior(1), reference).verdicts["candidate"]
    assert verdict.level == "indistinguishable"
    assert "would have shown" in verdict.text


def test_shifted_mean_differs_and_is_named(posterior, reference):
    verdict = compare_posteriors({"far": posterior(1, mean=[0.0, 0.5, 0.0])}, reference).verdicts["far"]
    assert verdict.level == "differs"
    assert "mean of 'b'" in verdict.text
    assert "larger coreset" in verdict.text


def test_wrong_sd_differs(posterior, reference):
    verdict = compare_posteriors(posterior(1, sd=[1.0, 1.0, 2.0]), reference).verdicts["candidate"]
    assert verdict.level == "differs"
    assert "sd of 'c'" in verdict.text


def test_wrong_correlation_differs(posterior, reference):
    candidate = posterior(1)
    beta = candidate.posterior["beta"].values
    beta[..., 1] = 0.6 * beta[..., 0] + 0.8 * beta[..., 1]
    verdict = compare_posteriors(candidate, reference).verdicts["candidate"]
    assert verdict.level == "differs"
    assert "correlation of 'a' and 'b'" in verdict.text


def test_small_real_shift_is_close(posterior):
    reference, candidate = posterior(0, draws=6000), posterior(1, draws=6000, mean=[0.06, 0.0, 0.0])
    assert compare_posteriors(candidate, reference).verdicts["candidate"].level == "close"


@pytest.mark.parametrize("which", ["candidate", "reference"])
def test_short_sticky_chains_are_too_few_draws(posterior, which):
    good, sticky = posterior(0), posterior(1, draws=120, rho=0.97)
    pair = (sticky, good) if which == "candidate" else (good, sticky)
    verdict = compare_posteriors(*pair).verdicts["candidate"]
    assert verdict.level == "too few draws"
    assert f"mostly from the {which}" in verdict.text
    assert "times as long" in verdict.text


def test_stuck_candidate_differs(posterior, reference):
    stuck = posterior(1)
    stuck.posterior["beta"].values[..., 0] = 3.0
    result = compare_posteriors(stuck, reference)
    assert result.verdicts["candidate"].level == "differs"
    assert "never moves" in result.health["candidate"].text


def test_features_are_matched_by_name(posterior, reference):
    forward = posterior(1, mean=[0.0, 1.0, 2.0], sd=[1.0, 2.0, 3.0])
    result = compare_posteriors({"forward": forward, "back": forward.isel(feature=[2, 0, 1])}, reference)
    metrics = result.metrics.drop(index="noise floor")
    np.testing.assert_allclose(metrics.loc["forward"], metrics.loc["back"])
    assert list(result.coordinates["feature"]) == ["a", "b", "c"] * 2


def test_nan_draws_are_named(posterior, reference):
    bad = posterior(1)
    bad.posterior["beta"].values[0, 3, 1] = np.nan
    with pytest.raises(ValueError, match=r"candidates\['x'\]: draws of 'b' are NaN"):
        compare_posteriors({"x": bad}, reference)


def test_beta_must_be_there(posterior, reference):
    other = compat.inference_data({"posterior": {"theta": posterior(1).posterior["beta"].to_numpy()}})
    with pytest.raises(ValueError, match=r"reference has no posterior draws of 'beta' \(found: 'theta'\)"):
        compare_posteriors(posterior(1), other)


def test_constant_reference_is_refused(posterior, reference):
    reference.posterior["beta"].values[..., 2] = 1.0
    with pytest.raises(ValueError, match="reference: 'c' has the same value in all draws"):
        compare_posteriors(posterior(1), reference)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("a", "b", "d"), r"candidates\['x'\]: .* lacks 'c' and has the extra 'd'"),
        (("a", "b"), "2 features where 3 are expected; it lacks 'c'"),
        (("a", "b", "c", "d"), "4 features where 3 are expected; it has the extra 'd'"),
        (("a", "b", "b"), "two features of the same name"),
    ],
)
def test_other_features_are_named(posterior, reference, features, message):
    with pytest.raises(ValueError, match=message):
        compare_posteriors({"x": posterior(1, features=features)}, reference)


def test_few_draws_are_refused(posterior, reference):
    with pytest.raises(ValueError, match="at least 4 draws a chain"):
        compare_posteriors(posterior(1, chains=2, draws=3), reference)


def test_bad_arguments_are_named(posterior, reference):
    good = posterior(1)
    for candidates, error, message in [
        ({}, ValueError, "candidates is empty"),
        ({"noise floor": good}, ValueError, "'noise floor', which the tables use"),
        ({"reference": good}, ValueError, "'reference', which the tables use"),
        ({1: good}, TypeError, "names must be strings"),
        ({"x": 3}, TypeError, r"candidates\['x'\] is of type int; give InferenceData"),
        ([good], TypeError, "candidates is of type list"),
    ]:
        with pytest.raises(error, match=message):
            compare_posteriors(candidates, reference)
    with pytest.raises(TypeError, match="reference is of type str"):
        compare_posteriors(good, "full.nc")
    with pytest.raises(ValueError, match="max_draws=5 must be at least 100"):
        compare_posteriors(good, reference, max_draws=5)


def test_bad_test_rows_are_named(posterior, reference):
    with pytest.raises(TypeError, match="test is of type ndarray"):
        compare_posteriors(posterior(1), reference, test=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="test has 2 features, the posterior 3"):
        compare_posteriors(posterior(1), reference, test=rows(n_features=2))
    foreign = posterior(1)
    del foreign.posterior.attrs["family"]
    with pytest.raises(ValueError, match=r"candidates\['x'\] does not tell its family"):
        compare_posteriors({"x": foreign}, reference, test=rows())


def test_plots_show_everything_asked_for(posterior, reference):
    result = compare_posteriors({f"run {i}": posterior(i + 1, draws=50) for i in range(10)}, reference)
    forest = result.plot_forest()
    assert [label.get_text() for label in forest.get_yticklabels()] == ["a", "b", "c"]
    assert "8 of 10 candidates, the first" in forest.get_title(loc="left")
    assert result.plot_marginals().size == 3
    assert len(result.plot_mmd().get_yticks()) == 10
    plt.close("all")


def test_mmd_is_drawn_against_coreset_size(posterior, reference):
    candidates = {
        f"{method} {size}": posterior(size, draws=50, coreset={"method": method, "size": size})
        for method in ("uniform", "calibrated")
        for size in (100, 20)
    }
    axes = compare_posteriors(candidates, reference).plot_mmd()
    lines = {container.get_label(): container.lines[0] for container in axes.containers}
    assert set(lines) == {"uniform", "calibrated"}
    assert list(lines["uniform"].get_xdata()) == [20, 100]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    plt.close("all")


def test_many_coordinates_show_the_worst(posterior):
    names = tuple(f"x{i}" for i in range(50))
    shift = np.where(np.arange(50) == 30, 1.0, 0.0)
    result = compare_posteriors(posterior(1, features=names, mean=shift), posterior(0, features=names))
    axes = result.plot_forest()
    assert len(axes.get_yticklabels()) == 40
    assert axes.get_yticklabels()[0].get_text() == "x30"
    assert "40 of 50 coordinates" in axes.get_title(loc="left")
    assert result.plot_marginals().size == 12
    plt.close("all")


def test_test_rows_are_refused_where_they_would_mislead(posterior, reference):
    """Pseudo-rows are no rows to predict, nor are rows without the groups of a posterior's effects."""
    with pytest.raises(ValueError, match=r"test has pseudo-rows.*all_rows\(rows, design=core\.design\)"):
        compare_posteriors(posterior(1), reference, test=replace(rows(), index=np.full(30, -1), offset=np.zeros(30)))
    grouped = posterior(1)
    grouped.posterior.attrs["group_terms"] = "(1 | county)"
    compare_posteriors(grouped, reference)
    with pytest.raises(
        ValueError, match=r"is of \(1 \| county\) and does not tell its groups; give what sample returned"
    ):
        compare_posteriors(grouped, reference, test=rows())
