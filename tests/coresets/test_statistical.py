"""The laws of the draws and the unbiasedness of the coresets, each beside a wrong law that must be rejected.

Every p-value is compared with ALARM = 1e-7, every z-score with the matching 5.33. Each comparison counts with a rate of
1e-6, tenfold: sums of 50 draws are somewhat skewed, and counts only nearly chi-squared. Wrong laws are so far off, and
repeats so many, that they are missed more seldom than that.
"""

import numpy as np
import pytest
from scipy.stats import chi2, norm

from bayescore.coresets.leverage import Leverage, leverage_scores
from bayescore.coresets.leverage import rates_of as leverage_rates
from bayescore.coresets.online import Online
from bayescore.coresets.sensitivity import Sensitivity
from bayescore.coresets.uniform import Uniform
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.numerics.sampling import collect, draw

FAMILYWISE_ALPHA = 1e-7
LIMIT = norm.isf(FAMILYWISE_ALPHA / 2.0)
RATES = np.array([1, 1, 2, 5, 10, 40, 3, 1000, 350, 20, 7, 90])


def source_of(n):
    return as_source(np.arange(float(n))[:, None], np.arange(n) % 2)


def rates_of(block):
    return RATES[block.index]


def equal(block):
    return np.ones(len(block), dtype=np.int64)


def fit(counts, expected):
    """p-value of Pearson's chi-squared, cells of less than 5 expected pooled into one."""
    counts, expected = np.ravel(counts), np.ravel(expected)
    rare = expected < 5.0
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


@pytest.fixture(scope="module")
def multinomial_counts():
    """Counts of the rows in 600 draws of 150 with replacement, shape (600, 12)."""
    source = source_of(len(RATES))
    draws = [draw(Dataset(source), rates_of, 150, seed).positions for seed in range(600)]
    return np.array([np.bincount(positions, minlength=len(RATES)) for positions in draws])


@pytest.mark.statistical(rate=1e-6)
def test_draws_with_replacement_follow_the_rates(multinomial_counts):
    total, p = multinomial_counts.sum(axis=0), RATES / RATES.sum()
    assert fit(total, total.sum() * p) > FAMILYWISE_ALPHA
    wrong = (RATES + 2) / (RATES + 2).sum()  # rates off by two
    assert fit(total, total.sum() * wrong) < FAMILYWISE_ALPHA


@pytest.mark.statistical(rate=1e-6)
def test_counts_vary_as_multinomial_counts_do(multinomial_counts):
    p = RATES / RATES.sum()

    def dispersion(counts):
        """Two-sided p-value of the variances and covariances: a sum of Pearson statistics, one a draw."""
        expected = counts.sum(axis=1, keepdims=True) * p
        statistics = ((counts - expected) ** 2 / expected).sum(axis=1)
        m = counts.sum(axis=1)[0]
        variance = 2.0 * (len(p) - 1) + ((1.0 / p).sum() - len(p) ** 2 - 2.0 * len(p) + 2.0) / m  # Haldane 1937
        z = (statistics.mean() - (len(p) - 1)) / np.sqrt(variance / len(counts))
        return 2.0 * norm.sf(abs(z))

    assert dispersion(multinomial_counts) > FAMILYWISE_ALPHA
    assert dispersion(np.repeat(multinomial_counts[:150], 2, axis=0) * 2) < FAMILYWISE_ALPHA  # each draw taken twice
    even = np.rint(multinomial_counts.mean(axis=0) + 0.3 * (multinomial_counts - multinomial_counts.mean(axis=0)))
    assert dispersion(even[np.abs(even.sum(axis=1) - 150) < 1]) < FAMILYWISE_ALPHA  # too regular


@pytest.mark.statistical(rate=3e-6)
def test_successive_draws_are_independent():
    n = 6
    positions = draw(Dataset(source_of(n)), rates_of, 60_000, 12).positions
    p = RATES[:n] / RATES[:n].sum()

    def pairs(order):
        return np.histogram2d(order[::2], order[1::2], bins=np.arange(n + 1))[0]

    expected = 30_000 * np.outer(p, p)
    assert fit(pairs(positions), expected) > FAMILYWISE_ALPHA
    sticky = np.where(np.arange(60_000) % 40 == 1, np.roll(positions, 1), positions)  # one in 40 repeats the last
    assert fit(pairs(sticky), expected) < FAMILYWISE_ALPHA
    first = [
        draw(Dataset(source_of(n)), rates_of, 2, seed).positions for seed in range(500)
    ]  # and over neighbouring seeds
    assert fit(pairs(np.concatenate(first)), 500 * np.outer(p, p)) > FAMILYWISE_ALPHA
    across = np.array(first)[:, 0]
    assert fit(pairs(across), 250 * np.outer(p, p)) > FAMILYWISE_ALPHA


@pytest.mark.statistical(rate=2e-6)
def test_draws_without_replacement_include_every_row_and_pair_alike():
    n, size, repeats = 30, 9, 800

    def inclusions(rates):
        taken = np.zeros((repeats, n))
        for seed in range(repeats):
            positions = draw(Dataset(source_of(n)), rates, size, seed, replace=False).positions
            assert len(np.unique(positions)) == size
            taken[seed, positions] = 1.0
        return taken

    def p_values(taken):
        share = size / n
        excess = taken.sum(axis=0) - repeats * share
        rows = chi2.sf((excess**2).sum() / (repeats * share * (1.0 - share)) * (n - 1) / n, n - 1)
        both = share * (size - 1) / (n - 1)
        together = taken[:, ::2] * taken[:, 1::2]
        z = (together.mean() - both) / (together.mean(axis=1).std() / np.sqrt(repeats))
        return float(rows), 2.0 * float(norm.sf(abs(z)))

    assert min(p_values(inclusions(equal))) > FAMILYWISE_ALPHA
    lopsided = p_values(inclusions(lambda block: np.where(block.index < 5, 3, 2)))
    assert lopsided[0] < FAMILYWISE_ALPHA


# --- unbiasedness ------------------------------------------------------------------------------------------

N, M, REPEATS = 300, 50, 500
BETAS = [(0.0, 0.0, 0.0), (0.5, 1.0, -1.0), (-2.0, 3.0, 0.5)]


def problem(weighted):
    rng = np.random.Generator(np.random.PCG64(8))  # the same rows under every shift: what wrong weights cost is known
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 2)) + 3.0 * (rng.random((N, 1)) < 0.05)])
    y = X[:, 1] + rng.logistic(size=N) > 0.5
    source = as_source(X, y, weights=rng.uniform(0.2, 5.0, N) if weighted else None)
    return source, X * source.y[:, None]


def z_scores(values, truth):
    return (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def log_likelihoods(Z, weights):
    """Weighted log-likelihood at BETAS, then the sum of the weights."""
    return np.append(-weights @ np.logaddexp(0.0, -Z @ np.transpose(BETAS)), weights.sum())


@pytest.mark.statistical(rate=4e-6)
@pytest.mark.parametrize("weighted", [False, True])
def test_sensitivity_coresets_are_unbiased(weighted):
    source, Z = problem(weighted)
    right, wrong = [], []
    for seed in range(REPEATS):
        rows = Sensitivity(clustering=Z[:4], radius=1.0).build(Dataset(source), M, seed, FAMILIES["logistic"]).rows
        right.append(log_likelihoods(rows.Z, rows.weights))
        # without the division by p: every draw stands for an equal share of the total weight
        wrong.append(log_likelihoods(rows.Z, np.full(len(rows), source.weights.sum() / len(rows))))
    truth = log_likelihoods(Z, source.weights)
    assert truth[-1] == pytest.approx(Dataset(source).scan.weight_total)
    assert (np.abs(z_scores(np.array(right), truth)) < LIMIT).all()
    assert np.abs(z_scores(np.array(wrong), truth)).max() > LIMIT
    assert np.std(np.array(right)[:, -1]) > 0.0  # the sum of the weights is W on average only


@pytest.mark.slow
@pytest.mark.statistical(rate=4e-6)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scores", ["exact", "sketch", "online"])
def test_leverage_coresets_are_unbiased(scores, weighted):
    source, Z = problem(weighted)
    right, wrong = [], []
    for seed in range(REPEATS):
        if scores == "online":
            rows = Online().build(Dataset(source, block_rows=40), M, seed, FAMILIES["logistic"]).rows
        else:
            rows = Leverage(scores=scores).build(Dataset(source, block_rows=40), M, seed, FAMILIES["logistic"]).rows
        right.append(log_likelihoods(rows.Z, rows.weights))
        wrong.append(log_likelihoods(rows.Z, np.full(len(rows), source.weights.sum() / len(rows))))
    truth = log_likelihoods(Z, source.weights)
    assert (np.abs(z_scores(np.array(right), truth)) < LIMIT).all()
    assert np.abs(z_scores(np.array(wrong), truth)[:-1]).max() > LIMIT


@pytest.mark.statistical(rate=6e-6)
@pytest.mark.parametrize(("rule", "accepted"), [(np.less_equal, True), (np.greater_equal, False)])
def test_the_reservoirs_of_the_source_have_the_law_of_the_draw_once_their_rule_is_turned(rule, accepted):
    """M size-1 reservoirs take row n when U <= s_n / S_n; Peters (2021) prints ">="."""
    source, Z = problem(weighted=True)
    w, rng = source.weights, np.random.default_rng(2)
    s = leverage_rates(leverage_scores(Z, w), w, source.weights.sum())
    values, taken = [], np.zeros(N)
    for _ in range(REPEATS):
        replaced = rule(rng.random((N, M)), (s / s.cumsum())[:, None])
        replaced[0] = True
        last = N - 1 - np.argmax(replaced[::-1], axis=0)
        values.append(log_likelihoods(Z[last], w[last] * s.sum() / (s[last] * M)))
        taken += np.bincount(last, minlength=N)
    assert (np.abs(z_scores(np.array(values), log_likelihoods(Z, w))) < LIMIT).all() == accepted
    assert (fit(taken, REPEATS * M * s / s.sum()) > FAMILYWISE_ALPHA) == accepted
    positions = np.concatenate([draw(Dataset(source), lambda _: s, M, seed).positions for seed in range(REPEATS)])
    assert fit(np.bincount(positions, minlength=N), REPEATS * M * s / s.sum()) > FAMILYWISE_ALPHA


@pytest.mark.statistical(rate=4e-6)
@pytest.mark.parametrize("weighted", [False, True])
def test_uniform_coresets_are_unbiased(weighted):
    source, Z = problem(weighted)
    right, wrong = [], []
    for seed in range(REPEATS):
        rows = Uniform().build(Dataset(source), M, seed, FAMILIES["logistic"]).rows
        right.append(log_likelihoods(rows.Z, rows.weights))
        near = draw(Dataset(source), lambda block: 1 + (np.abs(block.X[:, 1]) > 1.0), M, seed, replace=False).rows
        wrong.append(log_likelihoods(near.Z, near.weights * (N / M)))  # drawn by score, weighed as if not
    truth = log_likelihoods(Z, source.weights)
    right, wrong = np.array(right), np.array(wrong)
    if not weighted:
        np.testing.assert_allclose(right[:, [0, -1]], np.tile(truth[[0, -1]], (REPEATS, 1)), rtol=1e-12)
        right, truth, wrong = right[:, 1:-1], truth[1:-1], wrong[:, 1:-1]
    assert (np.abs(z_scores(right, truth)) < LIMIT).all()
    assert np.abs(z_scores(wrong, truth)).max() > LIMIT


@pytest.mark.statistical(rate=1e-6)
def test_the_variance_of_a_sensitivity_coreset_is_that_of_the_multinomial():
    """Var = (sum f^2 / p - (sum f)^2) / M for f = w log p(y): neither the weights nor the counts are shrunk."""
    source, Z = problem(weighted=True)
    f = -source.weights * np.logaddexp(0.0, -Z @ np.array(BETAS[1]))
    rates = np.random.default_rng(0).integers(1000, 9000, N)
    p = rates / rates.sum()
    values = []
    for seed in range(2 * REPEATS):
        drawn = draw(Dataset(source), lambda block: rates[block.index], M, seed)
        rows, counts, rate = collect(drawn)
        values.append((f[rows.index] * counts * (drawn.total / (rate * float(M)))).sum())
    variance = ((f**2 / p).sum() - f.sum() ** 2) / M
    squares, law = ((np.array(values) - f.sum()) ** 2).sum(), chi2(len(values))
    for claimed, accepted in ((variance, True), (variance / 2.0, False), (variance * 2.0, False)):
        assert (law.ppf(FAMILYWISE_ALPHA / 2.0) < squares / claimed < law.isf(FAMILYWISE_ALPHA / 2.0)) == accepted
