"""Fits of numbers by their sums alone: averages that are refused, and updates whose default prior goes by all rows."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError
from tests.counted import QUIET

FAMILY = "normal(2)"


def numbers(n=600, seed=0):
    """Return rows whose responses are about 100."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"a": rng.normal(3.0, 2.0, n), "d": rng.choice(["phone", "tablet"], n), "g": rng.integers(0, 6, n)}
    )
    eta = 100.0 + 0.7 * rows["a"] - 2.0 * (rows["d"] == "tablet") + rng.normal(size=6)[rows["g"]]
    return rows.assign(y=eta + rng.normal(0.0, 2.0, n))


ROWS = numbers()


def fitted(formula, rows, family=FAMILY, **others):
    return bc.fit(formula, rows, family=family, random_state=1, **others, **QUIET)


# -------------------------------------------------------------------------------------------------------- without rows


def of_coreset(formula, _folder):
    return fitted(bc.build_coreset(ROWS, formula=formula, family=FAMILY, **QUIET), None, None)


def of_stream(formula, _folder):
    stream = bc.stream(formula=formula, family=FAMILY)
    for part in (ROWS[:400], ROWS[400:]):
        stream.partial_fit(part)
    return fitted(stream.coreset(), None, None)


def read(formula, folder):
    fitted(formula, ROWS).save(folder / "fit")
    return bc.read_fit(folder / "fit", **QUIET)


def of_draws(formula, _folder):
    core = bc.build_coreset(ROWS, formula=formula, family=FAMILY, **QUIET)
    return bc.Fit.from_draws(bc.sample(core, draws=1500, random_seed=1, **QUIET), core, **QUIET)


def updated(formula, _folder):
    return fitted(formula, ROWS[:400]).update(ROWS[400:], **QUIET)


FLAT, SLOPES = "y ~ a + d", "y ~ a + d + (1 + a | g)"
WAYS = [(made, FLAT) for made in (of_coreset, of_stream, read, of_draws, updated)]


@pytest.mark.slow
@pytest.mark.parametrize(("made", "formula"), [*WAYS, (of_coreset, SLOPES), (updated, "y ~ a + d + (1 | g)")])
def test_averages_are_not_of_the_rows_of_sums(made, formula, tmp_path):
    fit = made(formula, tmp_path)
    said = r"pseudo-rows, and not the rows' columns; .* data=rows, .* fit\.update\(data=rows\)"
    for ask in (
        fit.average_predictions,
        lambda: fit.average_predictions(by="d"),
        lambda: fit.comparisons("d"),
        lambda: fit.slopes("a"),
        lambda: fit.summary(scale="response"),
        lambda: fit.plot("a"),
        fit.check,
    ):
        with pytest.raises(DataError, match=said):
            ask()
    assert "fit.check()" not in str(fit)
    averages = fit.average_predictions(by="d", data=ROWS).set_index("d")["mean"]
    np.testing.assert_allclose(averages, ROWS.groupby("d")["y"].mean(), rtol=5e-3)
    assert not fit.check(ROWS)["outside"].all()


# ------------------------------------------------------------------------------------------------------------- updates


def drift(seed=3, n=400):
    """Return rows about 100, and others about 200 that vary more."""
    rng = np.random.default_rng(seed)
    first, more = (pd.DataFrame({"a": rng.normal(size=n), "g": rng.integers(0, 20, n)}) for _ in range(2))
    noise = rng.normal(0.0, 30.0, n) + rng.normal(0.0, 40.0, 20)[more["g"]]
    return first.assign(y=100.0 + first["a"] + rng.normal(size=n)), more.assign(y=200.0 + more["a"] + noise)


def sigmas(fit):
    """Return the scales of the priors of coefficients and of groups' sds."""
    return np.array([float(text.rstrip(")").split("sigma=")[1]) for text in fit.prior_summary()["prior"]])


def read_again(fit, folder):
    fit.save(folder / "fit")
    return bc.read_fit(folder / "fit", **QUIET)


@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a + (1 | g)"])
@pytest.mark.parametrize("way", ["fit", "read", "draws"])
@pytest.mark.statistical(rate=2e-6)  # of 3 means; 0.05 sds are for columns' sds of the first rows
def test_the_default_prior_of_an_update_goes_by_all_rows(formula, way, tmp_path):
    first, more = drift()
    part = fitted(formula, first, "normal(30)")
    if way == "read":
        part = read_again(part, tmp_path)
    elif way == "draws":
        core = part.coreset
        part = bc.Fit.from_draws(bc.sample(core, random_seed=1, **QUIET), core, **QUIET)
    found, whole = part.update(more, **QUIET), fitted(formula, pd.concat([first, more]), "normal(30)")
    assert found.level == "certified"
    np.testing.assert_allclose(sigmas(found), sigmas(whole), rtol=0.1)  # the design's sds are those of the first rows
    assert abs(sigmas(part) / sigmas(whole) - 1.0).max() > 0.9  # a control
    own, other = found.summary(), whole.summary()
    error = other["sd"] * np.sqrt(1.0 / own["ess_bulk"] + 1.0 / other["ess_bulk"])
    assert ((own["mean"] - other["mean"]).abs() < 5.0 * error + 0.05 * other["sd"]).all()
    again = found.update(more[:50], **QUIET)  # and once more
    assert abs(sigmas(again) / sigmas(found) - 1.0).max() > 1e-4


def test_an_update_keeps_the_priors_that_a_user_gave():
    first, more = drift()
    given, sds = {"a": bc.priors.Normal(0.0, 0.5)}, bc.priors.HalfNormal(7.0)
    part = fitted("y ~ a + (1 | g)", first, "normal(30)", prior=given, group_prior=sds)
    found = part.update(more, **QUIET)
    told, before = found.prior_summary()["in_data_units"], part.prior_summary()["in_data_units"]
    assert told["a"] == before["a"] == "Normal(mu=0, sigma=0.5)"
    assert told["sigma_g"] == before["sigma_g"] == "HalfNormal(sigma=7)"
    assert told["Intercept"] != before["Intercept"]  # which has the default one


@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a + (1 | g)"])
def test_parts_may_have_one_response(formula):
    part = fitted(formula, ROWS)
    for new in (ROWS[:1], ROWS[:5].assign(y=107.0)):
        found, rows = part.update(new, **QUIET).coreset, pd.concat([ROWS, new])
        assert found.n_total == len(rows)
        whole = bc.build_coreset(rows, design=part.coreset.design, family=FAMILY, **QUIET)
        added = bc.build_coreset(new, design=part.coreset.design, family=FAMILY, **QUIET)
        union = bc.build_coreset(bc.Coreset.concat([part.coreset, added]), **QUIET)
        wanted = bc.find_map(whole)
        for core in (found, union):
            np.testing.assert_allclose(bc.find_map(core).beta, wanted.beta, rtol=1e-6, atol=1e-6)
    with pytest.raises(DataError, match="every response is 107: numbers that do not vary"):
        bc.build_coreset(ROWS[:5].assign(y=107.0), formula=formula, family=FAMILY, **QUIET)


# ------------------------------------------------------------------------------------------------------------ evidence


@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a + (1 | g)"])
def test_exact_sums_have_the_evidence_of_all_rows(formula):
    core = bc.build_coreset(ROWS, formula=formula, family=FAMILY, **QUIET)
    own, found = (bc.log_evidence(core, *data, random_state=1, **QUIET) for data in ((), (ROWS,)))
    everything = bc.log_evidence(bc.all_rows(ROWS, formula=formula, family=FAMILY, **QUIET), random_state=1)
    assert found.log_evidence == own.log_evidence
    for value in (found.log_evidence, found.full):
        assert value == pytest.approx(everything.log_evidence, abs=1e-4)
    assert found.difference == found.full - found.log_evidence
    assert found.epsilon < 1e-6
    assert repr(found).startswith(repr(own).splitlines()[0])
    other = bc.build_coreset(ROWS[:500], formula=formula, family=FAMILY, **QUIET)  # a control
    assert abs(bc.log_evidence(other, random_state=1).log_evidence - own.log_evidence) > 100.0


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a + (1 | g)"])
@pytest.mark.parametrize("y", [4.0, 0.1, 0.0])
def test_responses_that_do_not_vary_give_no_default_prior(formula, y):
    rows = ROWS.assign(y=y, w=ROWS["a"] ** 2 + 0.1)
    whole = bc.all_rows(rows, formula=formula, weights="w", family=FAMILY, **QUIET)
    said = rf"every response is {y:g}: numbers that do not vary tell no effect; look at y"
    for ask in (bc.find_map, lambda core: bc.sample(core, random_seed=1, **QUIET)):
        with pytest.raises(DataError, match=said):
            ask(whole)
    part = bc.build_coreset(ROWS[:50], formula=formula, family=FAMILY, **QUIET)
    same = [bc.build_coreset(rows[half::2], design=part.design, family=FAMILY, **QUIET) for half in (0, 1)]
    with pytest.raises(DataError, match=said):
        bc.find_map(bc.build_coreset(bc.Coreset.concat(same), **QUIET))
    if "|" not in formula:
        assert abs(bc.find_map(whole, prior=bc.priors.Normal(0.0, 50.0)).beta - [y, 0.0]).max() < 0.1


@pytest.mark.parametrize("beside", [{"classes": (0, 1)}, {"positive": 1, "formula": "y ~ a"}])
def test_streams_of_numbers_refuse_labels(beside):
    with pytest.raises(
        DataError, match=r"(classes|positive)=.* family='normal\(2\)' takes numbers, .* no positive label"
    ):
        bc.stream(family=FAMILY, **beside)
    assert bc.stream(classes=(0, 1), size=50).n_rows == 0  # of labels


def test_complex_responses_are_refused():
    rows, y = ROWS[["a"]].to_numpy(), ROWS["y"].to_numpy()
    for bad in (y + 1j, pd.Series(y + 0j), (y + 1j).astype(object)):
        with pytest.raises(DataError, match="y has complex numbers; give real ones"):
            bc.build_coreset(rows, bad, family=FAMILY, **QUIET)
        with pytest.raises(DataError, match="y has complex numbers; give real ones"):
            bc.stream(family=FAMILY).partial_fit(rows, bad)
    with pytest.raises(DataError, match="complex"):
        bc.build_coreset(ROWS.assign(y=y + 1j), formula="y ~ a", family=FAMILY, **QUIET)
