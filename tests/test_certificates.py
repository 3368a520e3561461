"""What stands behind the table of certificates: truths, wrong draws, and counts."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from benchmarks.accuracy.full_posteriors import as_idata
from benchmarks.certificates import certificate_references as references
from benchmarks.certificates.certificate_draws import KINDS, Sampled, part
from benchmarks.certificates.certificate_problems import PROBLEMS, Problem
from benchmarks.certificates.certificate_trials import cell, errors
from benchmarks.certificates.certificates import counted, judged, summary, upper


def trial(level, off=0.05, corrected_off=np.nan, *, kind="own", ess=2000.0, mean=0.05, sd=0.02, method="uniform"):
    return {
        "kind": kind, "level": level, "off": off, "corrected off": corrected_off, "ESS": ess, "mean": mean, "sd": sd,
        "correlation": 0.02,
        "D": 5, "method": method, "family": "probit", "prior": "Normal", "rows": 10, "draws": 1000,
    }  # fmt: skip


def test_counts_false_words_and_good_draws_refused():
    frame = pd.DataFrame([
        trial("certified"),
        trial("certified", off=0.26, mean=0.3),
        trial("corrected", off=0.9, corrected_off=0.02, mean=0.9),
        trial("corrected", off=0.1, corrected_off=0.4, sd=0.12, method="calibrated"),
        trial("not certified", method="calibrated"),
        trial("refused", off=2.0, kind="shifted", mean=2.0),
        trial("not certified", ess=900.0),
        trial("certified", kind="from elsewhere"),
        {"level": "no coreset", "kind": np.nan, "D": 5},
    ])  # fmt: skip
    frame["cell"] = range(len(frame))
    found = counted(judged(frame))
    assert (found["trials"], found["certified"], found["corrected"], found["false"]) == (8, 3, 2, 2)
    assert (found["good"], found["good, certified"], found["power"]) == (2, 1, 0.5)
    rows = {(row["by"], row["value"]): row for row in summary(frame)}
    assert rows["all", ""]["false"] == 2
    assert rows["method", "calibrated"]["false"] == 1
    assert rows["method", "calibrated"]["power"] == 0.0
    assert rows["kind", "shifted"]["certified"] == 0
    assert rows["columns", "3 to 11"]["trials"] == 8


def test_upper_end_is_clopper_and_pearsons():
    assert upper(0, 500) == pytest.approx(1.0 - 0.025 ** (1 / 500))
    assert upper(3, 40) == pytest.approx(stats.beta.ppf(0.975, 4, 37))
    assert upper(0, 0) == 1.0


def test_errors_are_those_beyond_three_standard_errors_of_the_reference():
    pair = np.array([[-1.0, -1.0], [1.0, 1.0]] * 50)  # means 0, sds 1, correlation 1; medians 0, quartiles -1 and 1

    def figures(mean, sd, correlation):
        return references.Figures(np.array([mean, 0.0]), np.array(sd), np.array([correlation]))

    truth = references.Reference(
        figures(1.0, [2.0, 1.0], 0.6), figures(0.2, [0.0, 0.1], 0.01), figures(0.0, [1.0, 1.0], 0.0),
        figures(0.0, [0.0, 0.0], 0.0), "made", np.nan,
    )  # fmt: skip
    sizes, beyond = errors(pair, truth, np.array([False, False]))
    assert sizes == pytest.approx({"mean": 0.5, "sd": 0.5, "correlation": 0.4})
    assert beyond == pytest.approx(0.5)  # of the sd, which is known exactly: that of the mean is 0.5 - 0.3
    sizes, beyond = errors(pair, truth, np.array([True, False]))
    assert sizes == pytest.approx({"mean": 0.0, "sd": 2.0 / 1.349 - 1.0, "correlation": 0.0})
    assert beyond == pytest.approx(2.0 / 1.349 - 1.0)


def test_horseshoe_is_a_density_and_that_of_its_draws():
    prior = bc.priors.Horseshoe(1.0)
    b = np.geomspace(0.01, 900.0, 4001)
    share = 2.0 * np.trapezoid(np.exp(references.horseshoe(b, prior)) * b, np.log(b))
    rng = np.random.default_rng(0)
    free = (rng.standard_cauchy(200_000) * rng.standard_cauchy(200_000)) ** 2
    slab = stats.invgamma(2.0, scale=8.0).rvs(200_000, random_state=rng)
    draws = rng.standard_normal(200_000) * np.sqrt(slab * free / (slab + free))
    assert share == pytest.approx((np.abs(draws) > 0.01).mean(), abs=0.005)  # 5 standard errors: 0.002; nodes


def test_grid_and_importance_sampling_agree(monkeypatch):
    """Of 2 means, 2 sds and a correlation each within 5 standard errors: false alarm below 1e-5."""
    monkeypatch.setattr(references, "GRID", {2: 201})
    problem = Problem("normal", 1000, 2, "probit", "Laplace")
    grid, draws = references.by_grid(problem), references.by_importance(problem)
    wrong = references.by_importance(Problem("normal", 1000, 2, "probit", "SpikeAndSlab"))
    for part_, control in (("location", True), ("scale", False), ("correlation", False)):
        se = getattr(draws.error, part_)
        assert (np.abs(getattr(grid.moments, part_) - getattr(draws.moments, part_)) < 5.0 * se).all()
        if control:  # another prior is seen
            assert (np.abs(getattr(grid.moments, part_) - getattr(wrong.moments, part_)) > 5.0 * se).any()


def test_wrong_draws_are_wrong_in_the_way_they_say():
    rng = np.random.default_rng(0)
    core = bc.all_rows(rng.standard_normal((50, 3)), rng.random(50) < 0.5, progressbar=False)
    beta = rng.standard_normal((4, 600, 3)) * [1.0, 2.0, 4.0]
    beta[:, :, 1] += beta[:, :, 0]
    idata = as_idata(beta, core, "logistic")
    idata["sample_stats"] = idata["posterior"]["beta"].isel(feature=0, drop=True).to_dataset(name="lp")
    made = Sampled(core, "logistic", bc.priors.Normal(0, 4), idata, lambda: as_idata(beta + 9.0, core, "logistic"))
    new = {name: KINDS[name](made, rng).posterior["beta"].values for name in KINDS if name != "badly tuned"}
    assert idata.posterior["beta"].values == pytest.approx(beta)  # they work on copies
    assert new["from elsewhere"] == pytest.approx(beta)
    assert np.abs(new["shifted"].mean(axis=(0, 1)) - beta.mean(axis=(0, 1))).max() > 0.29
    assert sorted(new["columns swapped"].std(axis=(0, 1))) == pytest.approx(sorted(beta.std(axis=(0, 1))))
    assert not np.allclose(new["columns swapped"], beta)
    assert np.abs(new["rescaled"].std(axis=(0, 1)) / beta.std(axis=(0, 1)) - 1.0).min() > 0.28
    assert 0.05 < (new["retouched"] != beta).any(axis=2).mean() < 0.4
    assert np.sort(new["shuffled"], axis=None) == pytest.approx(np.sort(beta, axis=None))
    assert (new["frozen coordinate"].std(axis=(0, 1)) < 1e-9).sum() == 1
    assert (new["frozen chain"][-1].std(axis=0) < 1e-9).all()
    assert (new["one chain, four times"] == new["one chain, four times"][0]).all()
    assert new["another coreset, unsaid"] == pytest.approx(beta + 9.0)
    assert part(idata, 2, 10).posterior["beta"].shape == (2, 10, 3)


def test_cells_follow_from_their_number():
    assert [cell(n) for n in range(20)] == [cell(n) for n in range(20)]
    assert len({cell(n).problem for n in range(200)}) > 30
    assert {cell(n).posterior.d for n in range(400)} >= {1, 2, 4, 200}
    assert {PROBLEMS[cell(n).problem].prior for n in range(400)} >= {"Normal", "Cauchy", "SpikeAndSlab"}
