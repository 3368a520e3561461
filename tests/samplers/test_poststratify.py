"""Shares of populations: the formula, draw by draw, and MRP of 148,494 votes end to end."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
import xarray as xr

import bayescore as bc
from bayescore.families.family import FAMILIES
from bayescore.numerics.chains import ess
from bayescore.validation import DataError
from tests.arviz_draws import inference_data
from tests.hand_made import poststratify

LABELS = [name for name, own in FAMILIES.items() if not own.counts]

QUIET = {"progressbar": False}
STATES, AGES = ("AK", "CA", "TX"), (18, 30, 45, 65)
RNG = np.random.default_rng(4)
VOTES = pd.DataFrame(
    {
        "rich": np.round(RNG.normal(size=900), 1),
        "state": RNG.choice(STATES, 900),
        "age": RNG.choice(AGES, 900),
        "exposure": np.round(RNG.normal(size=900), 1),
        "vote": RNG.integers(0, 2, 900),
    }
)
CELLS = pd.DataFrame([(s, a, r) for s in STATES for a in AGES for r in (-1.0, 0.5)], columns=["state", "age", "rich"])
CELLS = CELLS.assign(n=RNG.integers(1, 900, len(CELLS)), exposure=0.25, part=np.where(CELLS.state == "AK", "a", "b"))
FORMULA = "vote ~ rich + (1 + rich | state) + (1 | age)"


def draws_of(core, **names):
    """Return a posterior of random draws: 2 chains of 30, effects with slopes by state."""
    shapes = {"beta": (core.n_features,), names.get("state", "state"): (3, 2), names.get("age", "age"): (4,)}
    rng = np.random.default_rng(1)
    return inference_data({"posterior": {name: rng.normal(size=(2, 30, *shape)) for name, shape in shapes.items()}})


@pytest.fixture(scope="module", params=LABELS)
def core(request):
    return bc.build_coreset(
        VOTES, formula=FORMULA, offset="exposure", method="aggregate", family=request.param, **QUIET
    )


def test_shares_are_the_formula_draw_by_draw(core):
    idata = draws_of(core)
    found = poststratify(idata, core, CELLS, by=["part", "age"], weights="n", prob=0.8)
    drawn = {
        name: idata.posterior[name].values.reshape(60, *idata.posterior[name].shape[2:]) for name in idata.posterior
    }
    shares = {}
    for key, part in CELLS.groupby(["part", "age"]):
        total = np.zeros(60)
        for cell in part.itertuples():
            by_state, by_age = drawn["state"][:, STATES.index(cell.state)], drawn["age"][:, AGES.index(cell.age)]
            eta = drawn["beta"][:, 0] + drawn["beta"][:, 1] * cell.rich + cell.exposure
            eta += by_state[:, 0] + by_state[:, 1] * cell.rich + by_age
            total += cell.n * FAMILIES[core.family].mean(eta)
        shares[key] = total / part.n.sum()
    assert found.index.names == ["part", "age"]
    assert list(found.index) == list(shares)
    expected = np.array(list(shares.values()))
    np.testing.assert_allclose(found["mean"], expected.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["lower"], np.quantile(expected, 0.1, axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["upper"], np.quantile(expected, 0.9, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(found["weight"], CELLS.groupby(["part", "age"]).n.sum())


def test_the_whole_population_is_the_average_of_its_parts(core):
    idata = draws_of(core, state="u_state", age="u_age")
    parts = poststratify(idata, core, pl.from_pandas(CELLS), by="state", weights="n")
    whole = poststratify(idata, core, CELLS, weights="n")
    assert whole["mean"].item() == pytest.approx(np.average(parts["mean"], weights=parts["weight"]), rel=1e-12)
    fewer = poststratify(idata, core, CELLS, weights="n", max_draws=20)
    assert fewer["mean"].item() != whole["mean"].item()


def bad(cells=CELLS, **changes):
    return SimpleNamespace(cells=cells, **changes)


BAD = {
    "no weights": (bad(weights="count"), "cells has no column 'count'"),
    "no part": (bad(by="region"), "cells has no column 'region'"),
    "no group": (bad(CELLS.drop(columns="age")), "cells has no column 'age'"),
    "no feature": (bad(CELLS.drop(columns="rich")), "lacks the column 'rich'"),
    "no offset": (bad(CELLS.drop(columns="exposure")), "cells has no column 'exposure'"),
    "a new group": (bad(CELLS.replace({"TX": "Atlantis"})), "'state'\\) has the level 'Atlantis', none of the 3 known"),
    "a missing group": (bad(CELLS.assign(age=np.where(CELLS.age > 18, CELLS.age, np.nan))), "'age'\\) is missing in"),
    "a missing part": (bad(CELLS.assign(part=[None, *CELLS.part[1:]]), by="part"), "cells miss 'part' in some row"),
    "no cells": (bad(CELLS.iloc[:0]), "cells is an empty table, so there is no average"),
    "no cells of parts": (bad(CELLS.iloc[:0], by="part"), "cells is an empty table, so there is no average"),
    "no people": (bad(CELLS.assign(n=-1)), "weights .column 'n'. is -1"),
    "an empty part": (bad(CELLS.assign(n=np.where(CELLS.state == "CA", 0, 3)), by="state"), "are all 0 in 'CA'"),
    "no table": (bad(CELLS.to_numpy()), "give a data frame with a row for each cell"),
}


@pytest.mark.parametrize("kind", BAD)
def test_cells_and_effects_that_do_not_fit_are_refused_by_name(core, kind):
    given, message = BAD[kind]
    options = {"weights": "n"} | {name: value for name, value in vars(given).items() if name != "cells"}
    with pytest.raises(DataError, match=message):
        poststratify(draws_of(core), core, given.cells, **options)


def test_effects_in_another_order_or_of_another_shape_are_refused(core):
    idata = draws_of(core)
    levels = {"level": list(AGES[::-1])}
    idata.posterior["u_age"] = xr.DataArray(idata.posterior["age"].values, levels, ["chain", "draw", "level"])
    with pytest.raises(DataError, match="or other levels than 'age' of core, which has 4 in the order 18, 30, 45"):
        poststratify(idata, core, CELLS, weights="n")
    idata.posterior["u_state"] = xr.DataArray(idata.posterior["age"].values, dims=["chain", "draw", "four"])
    with pytest.raises(DataError, match=r"effects 'u_state' have shape \(4, 1\) or other levels than 'state'"):
        poststratify(idata, core, CELLS, weights="n")
    other = bc.all_rows(VOTES[["rich", "vote"]], label="vote", **QUIET)
    with pytest.raises(DataError, match="idata has 2 coefficients 'beta', and core 1"):
        poststratify(idata, other, CELLS, weights="n")


def test_effects_are_found_by_their_dimension_where_one_has_it(core):
    expected = poststratify(draws_of(core, state="u_state"), core, CELLS, weights="n")
    idata = draws_of(core, state="b")
    with pytest.raises(DataError, match="no variable of the dimension 'state'; call its effects 'u_state'"):
        poststratify(idata, core, CELLS, weights="n")
    for name in ("by_state", "twice"):
        dims = ["chain", "draw", "state", "effect"]
        idata.posterior[name] = xr.DataArray(idata.posterior["b"].values, {"state": list(STATES)}, dims)
        if name == "by_state":
            found = poststratify(idata, core, CELLS, weights="n")
            pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(DataError, match="variables 'by_state', 'twice' of the dimension 'state'"):
        poststratify(idata, core, CELLS, weights="n")


def test_draws_with_effects_need_a_core_with_groups():
    plain = bc.all_rows(VOTES, formula="vote ~ rich", **QUIET)
    idata = inference_data({"posterior": {"beta": np.zeros((1, 30, 2))}})
    assert len(poststratify(idata, plain, CELLS, weights="n")) == 1
    idata.posterior.attrs["group_terms"] = "(1 | state)"
    with pytest.raises(DataError, match=r"effects of \(1 \| state\), and core has no groups"):
        poststratify(idata, plain, CELLS, weights="n")


@pytest.mark.slow
def test_mrp_of_votes_end_to_end(shared_data):
    """148,494 votes for president by state: 10,390 counts of cells merge to 204 rows, losing nothing.

    Posterior shares by state lie within 4 sds of the raw ones, which are independent binomials, and what partial
    pooling moves them by: false alarms of one in 300 for 51 states. Without groups, the negative control, they are off
    by more than 7 sds.
    """
    cells = pd.read_parquet(shared_data("ghitza_gelman_cells.parquet"))
    cells["votes"] = cells.success + cells.failure
    told = {"label": "success", "trials": "votes", "method": "aggregate", **QUIET}
    core = bc.build_coreset(cells, formula="z_incstt + z_trnprv + (1 | stt)", **told)
    assert (core.n_total, core.weight_total, len(core)) == (10_390, 148_494, 204)
    with pm.Model(coords={"feature": core.feature_names, "stt": core.groups[0].levels}):
        beta = pm.Normal("beta", 0, 2.5, dims="feature")
        sigma = pm.HalfNormal("sigma", 1)
        effects = pm.Normal("effects", 0, sigma, dims="stt")
        bc.weighted_potential("votes", core, beta, groups={"stt": effects})
        idata = pm.sample(500, tune=300, chains=2, cores=1, random_seed=3, target_accept=0.9, **QUIET)
    found = poststratify(idata, core, cells, by="stt", weights="votes")
    raw = cells.groupby("stt")[["success", "votes"]].sum()
    share = raw.success / raw.votes
    np.testing.assert_array_equal(found["weight"], raw.votes)
    np.testing.assert_array_equal(found.index, raw.index)
    sd = np.sqrt(share * (1 - share) / raw.votes)
    assert ess(idata.posterior["effects"].values, "bulk").min() > 100
    assert (abs(found["mean"] - share) < 4 * sd).all()
    plain = bc.build_coreset(cells, formula="z_incstt + z_trnprv", **told)
    flat = bc.sample(plain, sampler="mala", draws=300, chains=2, random_seed=1, **QUIET)
    unpooled = poststratify(flat, plain, cells, by="stt", weights="votes")
    assert (abs(unpooled["mean"] - share) / sd).max() > 7
    total = poststratify(idata, core, cells, weights="votes")
    assert total["mean"].item() == pytest.approx(101_749 / 148_494, abs=0.004)


def test_cells_whose_terms_are_not_finite_are_refused():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(1.0, 5.0, 500), "g": rng.integers(0, 5, 500), "y": rng.random(500) < 0.5})
    core = bc.all_rows(rows, formula="y ~ log(x) + (1 | g)", progressbar=False)
    idata = bc.sample(core, draws=50, tune=50, chains=1, random_seed=1, progressbar=False)
    cells = pd.DataFrame({"x": [2.0, -1.0], "g": [1, 2], "n": [10, 20]})
    with pytest.raises(DataError, match=r"'log\(x\)' is nan in row 1"):
        poststratify(idata, core, cells, weights="n", by="g")
    assert len(poststratify(idata, core, cells[:1], weights="n", by="g")) == 1
