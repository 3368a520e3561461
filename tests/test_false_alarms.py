"""Statistical tests state their false-alarm rates, and a shift gives all of them other random numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

import bayescore as bc
from bayescore.coresets.leverage import leverage_scores
from bayescore.numerics.sampling import hash_uniforms
from tests.conftest import make_rows
from tests.false_alarms import MOST, RATES, stated_rates
from tests.seeds import VARIABLE, shift, shift_seeds


def test_all_stated_rates_together_are_below_one_in_a_thousand(request):
    """Of all tests collected: of the whole suite where it runs as a whole."""
    assert sum(request.config.stash[RATES].values()) < MOST


def marked(*marks):
    return [SimpleNamespace(nodeid="a::b", get_closest_marker=lambda name, each=each: each) for each in marks]


def test_a_marker_without_a_rate_is_an_error():
    good = pytest.mark.statistical(rate=1e-6).mark
    assert stated_rates(marked(None, good)) == {"a::b": 1e-6}
    for bad in (
        pytest.mark.statistical,
        pytest.mark.statistical(1e-6),
        pytest.mark.statistical(rate=0.0),
        pytest.mark.statistical(rate=1),
        pytest.mark.statistical(rate=0.01),
        pytest.mark.statistical(rate=1e-6, cases=3),
    ):
        with pytest.raises(pytest.UsageError, match=r"a::b is marked statistical.*state its false-alarm rate"):
            stated_rates(marked(good, bad.mark))


ROWS = make_rows(400)
QUIET = {"random_state": 3, "progressbar": False}
SEEDED = {
    "default_rng": lambda: np.random.default_rng(5).random(4),
    "default_rng of two numbers": lambda: np.random.default_rng([5, 6]).random(4),
    "default_rng of a spawned sequence": lambda: np.random.default_rng(np.random.SeedSequence(5).spawn(2)[1]).random(4),
    "hash": lambda: hash_uniforms(0, 4, 5),
    "uniform": lambda: bc.build_coreset(ROWS.X, ROWS.y, method="uniform", size=50, **QUIET).index,
    "leverage": lambda: bc.build_coreset(ROWS.X, ROWS.y, method="leverage", size=50, **QUIET).index,
    "calibrated": lambda: bc.build_coreset(ROWS.X, ROWS.y, method="calibrated", size=50, **QUIET).index,
    "sketch": lambda: leverage_scores(ROWS.X, scores="sketch", random_state=3),
    "mala": lambda: bc.sample(ROWS, "logistic", sampler="mala", draws=400, chains=2, **QUIET).posterior["beta"].values,
}


@pytest.mark.parametrize("kind", SEEDED)
def test_a_shift_gives_other_random_numbers_and_repeats_them(kind, monkeypatch):
    draw, found = SEEDED[kind], []
    for by in (0, 1, 1, 2, 0):
        with monkeypatch.context() as patch:
            shift_seeds(by, patch.setattr)
            found.append(draw())
    same = [np.array_equal(found[i], found[j]) for i, j in ((0, 4), (1, 2), (0, 1), (0, 3), (1, 3))]
    assert same == [True, True, False, False, False]


def test_generators_keep_their_state_under_a_shift(monkeypatch):
    shift_seeds(1, monkeypatch.setattr)
    rng = np.random.default_rng(0)
    assert np.random.default_rng(rng) is rng
    assert np.random.default_rng().random() != np.random.default_rng().random()


@pytest.mark.parametrize(("text", "found"), [(None, 0), ("", 0), ("0", 0), ("7", 7)])
def test_the_shift_is_read_from_the_environment(text, found, monkeypatch):
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    assert shift() == found


@pytest.mark.parametrize("text", ["-1", "one", "1.5"])
def test_other_shifts_are_errors(text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"{VARIABLE}='{text}' must be a whole number"):
        shift()
