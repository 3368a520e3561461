"""Factors that vary by group: an effect for each level that `model.matrix` of the term alone has, as in lme4."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import bayescore as bc
from bayescore.data.design import Grouping
from bayescore.models.predictor import multipliers

N_GROUPS = 6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame(
        {
            "g": rng.integers(0, N_GROUPS, n),
            "arm": rng.choice(["a", "b", "c"], n),
            "site": rng.choice(["east", "west"], n),
            "dose": rng.normal(1.0, 2.0, n),
            "visit": rng.integers(1, 4, n),
        }
    )
    return frame.assign(y=rng.random(n) < 0.5)


def effects_and_multipliers(rows, formula, **options):
    core = bc.all_rows(rows, formula=formula, progressbar=False, **options)
    return core.groups[0].effects, multipliers(core.X, core.design, core.groups[0])


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ arm + (0 + arm | g)",
        "y ~ arm + (1 + arm | g)",
        "y ~ 0 + arm + (0 + arm | g)",
        "y ~ 0 + arm + (1 + arm | g)",
        "y ~ dose * arm + (0 + dose:arm | g)",
        "y ~ dose * arm + (1 + dose + dose:arm | g)",
        "y ~ dose * arm + (0 + arm + dose | g)",
        "y ~ dose * arm + (0 + arm + dose:arm | g)",
        "y ~ arm * site + (0 + arm:site | g)",
        "y ~ C(visit) + dose + (0 + C(visit) | g)",
        "y ~ dose + (0 + dose | g)",
    ],
)
def test_group_terms_are_those_of_bambi(rows, formula):
    """Columns of the two may stand in another order."""
    formulae = pytest.importorskip("formulae", reason="formulae, bambi's reader of formulas, is not installed")
    theirs = formulae.design_matrices(formula, rows.assign(y=rows.y.astype(int))).group.design_matrix
    _, z = effects_and_multipliers(rows, formula)
    ours = np.hstack([z * (rows["g"].to_numpy() == g)[:, None] for g in range(N_GROUPS)])
    theirs = np.asarray(theirs.todense() if hasattr(theirs, "todense") else theirs, dtype=float)
    assert sorted(map(tuple, ours.T.round(9))) == sorted(map(tuple, theirs.T.round(9)))


@pytest.mark.parametrize(
    ("formula", "effects"),
    [  # of bambi, both factors have all levels, and dose:arm not the first
        (
            "y ~ arm + site + (0 + arm + site | g)",
            {"arm[a]": "arm=='a'", "arm[b]": "arm=='b'", "arm[c]": "arm=='c'", "site[west]": "site=='west'"},
        ),
        (
            "y ~ dose * arm + (1 + dose:arm | g)",
            {"1": "dose==dose", **{f"dose:arm[{level}]": f"dose*(arm=='{level}')" for level in "abc"}},
        ),
        (
            "y ~ C(arm, Sum) + (0 + C(arm, Sum) | g)",
            {f"C(arm, Sum)[{level}]": f"arm=='{level}'" for level in "abc"},
        ),
        (
            "y ~ C(arm, Treatment('b')) + (1 + C(arm, Treatment('b')) | g)",
            {"1": "dose==dose", **{f"C(arm, Treatment('b'))[{level}]": f"arm=='{level}'" for level in "ac"}},
        ),
    ],
)
def test_group_terms_are_those_of_lme4(rows, formula, effects):
    found, z = effects_and_multipliers(rows, formula)
    assert list(found) == list(effects)
    assert np.allclose(z, np.column_stack([rows.eval(column) for column in effects.values()]), atol=1e-10)


def test_indicators_of_levels_are_those_of_the_data_where_columns_are_standardised(rows):
    formula = "y ~ arm + dose + (0 + arm | g)"
    _, z = effects_and_multipliers(rows, formula, standardize=True)
    assert np.allclose(z, pd.get_dummies(rows["arm"]).astype(float), atol=1e-12)


def test_sums_of_columns_are_kept_in_files(rows, tmp_path):
    core = bc.all_rows(rows, formula="y ~ arm + (0 + arm | g)", progressbar=False)
    core.save(tmp_path / "core.parquet")
    grouping = bc.read_coreset(tmp_path / "core.parquet").groups[0]
    assert grouping == core.groups[0]
    assert Grouping.from_dict(replace(grouping, sums=()).to_dict()) == replace(grouping, sums=())
    assert dict(grouping.sums)["arm[a]"] == (("Intercept", 1.0), ("arm[b]", -1.0), ("arm[c]", -1.0))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "normal", "poisson"])
def test_the_first_level_has_effects_in_every_verb(family, tmp_path):
    """Of sds 1, 0.5 and 0.3 by level, of 30 groups; limits are some 3 posterior sds wide."""
    rng = np.random.default_rng(5)
    n, G = 6000, 30
    d = pd.DataFrame({"g": rng.integers(0, G, n), "arm": rng.choice(["a", "b", "c"], n), "dose": rng.normal(size=n)})
    u = rng.normal(size=(G, 3)) * [1.0, 0.5, 0.3]
    eta = 0.5 * d["dose"] + u[d["g"], d["arm"].map({"a": 0, "b": 1, "c": 2})]
    noise = {"logistic": rng.logistic(size=n), "normal": rng.normal(size=n), "poisson": 0.0}[family]
    d["y"] = {
        "logistic": (eta + noise > 0).astype(int),
        "normal": eta + noise,
        "poisson": rng.poisson(np.exp(eta - 1.0)),
    }[family]
    own = None if family == "logistic" else family
    fit = bc.fit("y ~ dose + arm + (0 + arm | g)", d, family=own, random_state=1, progressbar=False)
    assert fit.level == "certified"
    sigma = fit.summary()["mean"].filter(like="sigma_g[")
    assert sigma.index.tolist() == [f"sigma_g[arm[{level}]]" for level in "abc"]
    assert np.allclose(np.log(sigma), np.log(u.std(axis=0)), atol=0.35)
    fit.save(tmp_path / "m")
    again = bc.read_fit(tmp_path / "m", d)
    new = pd.DataFrame({"g": np.arange(G), "arm": "a", "dose": 0.0})
    predicted = again.predict(new)["mean"]
    assert np.allclose(predicted, fit.predict(new)["mean"])
    assert spearmanr(predicted, u[:, 0]).statistic > 0.85
    more = fit.update(d.sample(1000, random_state=1))
    assert spearmanr(more.predict(new)["mean"], u[:, 0]).statistic > 0.85
