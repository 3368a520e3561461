"""Private coresets: what they hold, that both models take them, and an audit of their counts."""

import math

import numpy as np
import pytest
from scipy.stats import beta

import bayescore as bc
from bayescore.clustering.peers import clip_to_ball
from bayescore.coresets import private
from bayescore.coresets.private import fixed_sums, private_coreset
from bayescore.validation import DataError

pytest.importorskip("opendp", reason="opendp is not installed: private coresets were NOT checked")

OPTIONS = {"n_clusters": 12, "epsilon": 20.0, "radius": 8.0}


def problem(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X @ [1.0, -0.5] - 0.5 + rng.logistic(size=n) > 0, "yes", "no")


def test_it_is_a_weighted_data_set_that_both_models_take(tmp_path):
    X, y = problem()
    core = private_coreset(X, y, **OPTIONS, intercept=True, random_state=1)
    assert 6 < len(core) <= 24  # cells without rows are left out; the noise has no seed: 10 to 22 in 120 runs
    assert core.method == "private"
    assert core.feature_names == ("Intercept", "x0", "x1")
    assert core.classes == ("no", "yes")
    assert core.weight_total == core.weights.sum() == core.n_total
    assert core.n_total == pytest.approx(len(X), abs=100.0)  # 24 noises of scale 1/6, cells without rows left out
    for sign, name in ((-1, "no"), (1, "yes")):
        assert core.weights[core.y == sign].sum() == pytest.approx((y == name).sum(), abs=100.0)
    assert (np.abs(core.X[:, 1:]).sum(axis=1) <= 8.0 * (1 + 1e-9)).all()
    for family in ("logistic", "probit"):
        full = bc.find_map(bc.all_rows(X, y, intercept=True, progressbar=False), family).beta
        assert np.abs(bc.find_map(core, family).beta - full).max() < 0.3 * np.abs(full).max()
    core.save(tmp_path / "core.parquet")
    np.testing.assert_array_equal(bc.read_coreset(tmp_path / "core.parquet").weights, core.weights)


def test_the_budget_is_split_as_stated_and_kept():
    X, y = problem(2000)
    core = private_coreset(X, y, **{**OPTIONS, "epsilon": 4.0})
    params = core.params
    assert [params[f"epsilon_{part}"] for part in ("centers", "counts", "means")] == pytest.approx([0.4, 1.2, 2.4])
    assert params["neighbours"] == "one row added or removed"
    assert "epsilon" in repr(core)


def test_no_real_row_is_released():
    X, y = problem(500)
    core = private_coreset(X, y, **OPTIONS)
    assert not {tuple(x) for x in core.X} & {tuple(x) for x in X}


def least_epsilon(a, b, n):
    return math.log(beta.ppf(5e-7, a, n - a + 1) / beta.isf(5e-7, b + 1, n - b))


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_an_audit_of_the_counts(monkeypatch):
    """Data sets that differ by one row. Rate: that of the bounds of Clopper and Pearson.

    Counts with a third of the noise are not rejected in 6e-13.
    """
    X, y = np.zeros((60, 1)), np.repeat([0, 1], 30)
    runs = 250
    monkeypatch.setattr(private, "SHARES", (0.0005, 0.999, 0.0005))

    def hits(rows, epsilon):
        def count():
            core = private_coreset(X[:rows], y[:rows], n_clusters=1, epsilon=epsilon, radius=1.0)
            return core.weights[core.y > 0].sum()

        return sum(count() >= 30 for _ in range(runs))

    assert least_epsilon(hits(60, 1.0), hits(59, 1.0), runs) <= 1.0
    assert least_epsilon(hits(60, 3.0), hits(59, 3.0), runs) > 1.0


def test_a_row_changes_the_sums_by_no_more_than_the_noise_hides():
    """Rounded sums of these neighbours are 1.000122 apart at m = 20, where the noise was that of 1."""
    m = 20
    after = np.full(2**m, 2.0 ** (m - 53) * (1 + 2.0**-10))
    few, more = (np.concatenate([np.ones(2**m - 1 + extra), after])[:, None] for extra in (0, 1))
    cells = [np.zeros(len(rows), dtype=np.int64) for rows in (few, more)]
    changes = [fixed_sums(rows, cell, 1, 1.0)[0, 0] for rows, cell in zip((few, more), cells, strict=True)]
    assert abs(int(changes[1]) - int(changes[0])) == 2**30
    rounded = [0.0, 0.0]
    for i, rows in enumerate((few, more)):  # negative control
        total = np.zeros((1, 1))
        np.add.at(total, cells[i], rows)
        rounded[i] = total[0, 0]
    assert rounded[1] - rounded[0] > 1.0001


def test_any_row_of_the_ball_changes_the_sums_by_its_length_at_most():
    rng = np.random.default_rng(0)
    X, _ = clip_to_ball(rng.standard_t(1, size=(20_000, 7)), 0.3)
    each = np.abs(fixed_sums(X, np.arange(len(X)), len(X), 0.3)).sum(axis=1)
    assert 2**30 - 100 < each.max() <= 2**30 + 1


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_an_audit_of_the_means(monkeypatch):
    """Data sets that differ by one row at the border. Rate: that of the bounds of Clopper and Pearson.

    A fifth of the noise is not rejected in 3e-8.
    """
    X, y = np.zeros((61, 1)), np.arange(61) % 2
    X[60] = 1.0
    runs = 300

    def hits(rows, epsilon):
        def total():
            shares = (0.001, 2.0 / (epsilon + 2.0) - 0.001, epsilon / (epsilon + 2.0))
            monkeypatch.setattr(private, "SHARES", shares)
            core = private_coreset(X[:rows], y[:rows], n_clusters=1, epsilon=epsilon + 2.0, radius=1.0)
            return float(core.X[:, 0] @ core.weights)

        return sum(total() >= 1.0 for _ in range(runs))

    assert least_epsilon(hits(61, 1.0), hits(60, 1.0), runs) <= 1.0
    assert least_epsilon(hits(61, 5.0), max(hits(60, 5.0), 1), runs) > 1.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon=0 must be positive"),
        ({"radius": math.nan}, ValueError, "radius=nan must be positive"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0 must be at least 1"),
        ({"family": "tweedie"}, ValueError, "tweedie"),
    ],
)
def test_bad_input(change, error, message):
    X, y = problem(50)
    with pytest.raises(error, match=message):
        private_coreset(X, y, **{**OPTIONS, **change})


def test_clipping_is_reported_and_bad_rows_are_named():
    X, y = problem(200)
    with pytest.warns(UserWarning, match=r"of 200 rows lie outside \|x\|_1 <= 0.5 and were clipped .* not for release"):
        private_coreset(X, y, **{**OPTIONS, "radius": 0.5})
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="data is nan in row 3, column 1"):
        private_coreset(X, y, **OPTIONS)
