"""What other packages call families is read, or answered by what to give, which is then fitted."""

import re

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.families.family import ALIASES, INSTEAD, check_family, suggest_family
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False, "draws": 200, "tune": 300}
RNG = np.random.default_rng(4)
N = 300
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "n": RNG.integers(5, 20, N), "row": np.arange(N)})
P = 1.0 / (1.0 + np.exp(-0.5 * ROWS["x"] - 0.5 * RNG.normal(size=N)))
ROWS["k"], ROWS["share"], ROWS["number"] = RNG.binomial(ROWS["n"], P), P, ROWS["x"] + RNG.standard_t(3, N)
ROWS["t"], ROWS["died"] = RNG.exponential(size=N), RNG.integers(0, 2, N)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *ALIASES.items(),
        ("Bernoulli", "logistic"),
        ("binomial('probit')", "probit"),
        ('bernoulli(link = "cloglog")', "cloglog"),
        ("binomial(logit)", "logistic"),
        ("poisson(log)", "poisson"),
        ("Gamma(link='log')", "gamma"),
        ("gaussian(identity)", "normal"),
        ("negbinomial(3)", "negative_binomial(3)"),
        ("StudentT", "student_t"),
        ("student(identity)", "student_t"),
        ("t(nu=3, sigma=2)", "student_t(3, 2)"),
    ],
)
def test_names_that_mean_a_family_here_are_read(name, kind):
    assert check_family(name, seek=True) == check_family(kind, seek=True)


@pytest.mark.parametrize("name", INSTEAD)
def test_names_of_what_is_not_here_are_answered_by_families_that_are(name):
    for door in (lambda: bc.fit("k ~ x", ROWS, family=name, **QUIET), lambda: bc.build_coreset(ROWS, family=name)):
        with pytest.raises(ValueError, match=f"family='{name}' is not here: ") as said:
            door()
    known = re.findall(r"(?:family=|, or |, and )'([a-z_]+(?:\(\d\))?)'", str(said.value).partition(":")[2])
    assert known or "PyMC" in str(said.value)
    for each in known:
        assert each == "sratio" or check_family(each, seek=True).name == each


@pytest.mark.parametrize("name", ["Skew-Normal", "SkewNormal", "zero_inflated_poisson", "hurdle_lognormal"])
def test_names_are_read_without_marks_and_capitals(name):
    assert suggest_family(name)
    with pytest.raises(ValueError, match="is not here"):
        check_family(name)


@pytest.mark.parametrize("name", ["foo", 3, "gaussian(log)", "poisson(identity)"])
def test_other_names_are_unknown(name):
    assert not suggest_family(name)
    with pytest.raises(ValueError, match=r"choose one of|must be written as"):
        check_family(name)


@pytest.mark.filterwarnings("ignore:.*cluster")
def test_what_is_said_to_give_is_fitted():
    for formula, asked in (
        ("log(share / (1 - share)) ~ x", {"family": "normal"}),
        ("number ~ x", {"family": "normal", "cluster": "row"}),
        ("k | trials(n) ~ x + (1 | row)", {}),
        ("k ~ x", {"family": "poisson", "cluster": "row"}),
        ("log(t) ~ x", {"family": "normal"}),
        ("Surv(t, died) ~ x", {"family": "weibull(1)"}),
        ("k ~ x", {"family": "negative_binomial(1)"}),
    ):
        assert bc.fit(formula, ROWS, **asked, **QUIET).summary()["sd"]["x"] > 0.0
    with pytest.raises(DataError, match="cumulative"):
        bc.build_coreset(ROWS[["x"]], ROWS["k"], family="cumulative", progressbar=False)
