"""What a fit answers: averages of comparisons and slopes, effects of groups, checks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics import averages as average_sums
from bayescore.diagnostics.loo import loo
from bayescore.diagnostics.results import Level
from bayescore.validation import DataError
from tests.hand_made import poststratify


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(11)
    n = 3000
    rows = pd.DataFrame({"age": rng.normal(45, 12, n), "device": rng.choice(["phone", "tablet", "tv"], n)})
    rows["old"], rows["g"] = (rows["age"] > 50).astype(int), rng.integers(0, 8, n)
    u = rng.normal(0, 0.7, 8)
    eta = 0.05 * (rows["age"] - 45) + 0.6 * (rows["device"] == "tv") + u[rows["g"]] - 0.4 * rows["old"]
    return rows.assign(y=eta + rng.logistic(size=n) > 0)


@pytest.fixture(scope="module")
def flat(frame):
    return bc.fit("y ~ age * device + old", frame, random_state=1, progressbar=False)


@pytest.fixture(scope="module")
def grouped(frame):
    return bc.fit("y ~ age + (1 | g)", frame, random_state=1, progressbar=False)


def by_hand(fit, rows, draws=1000):
    """Return the probabilities of rows at the draws that averages use, shape (n, S)."""
    beta = fit._posterior().thinned(draws).reshape(draws, -1)
    return 1.0 / (1.0 + np.exp(-fit.coreset.design.transform(rows) @ beta.T))


def test_comparisons_of_a_factor_are_differences_of_average_predictions(flat, frame):
    found = flat.comparisons("device")
    known = flat.average_predictions(variables="device", data=frame)
    phone, *others = (by_hand(flat, frame.assign(device=device)).mean(axis=0) for device in known["device"])
    each = np.stack(others) - phone
    assert found["contrast"].tolist() == ["tablet - phone", "tv - phone"]
    assert np.allclose(found["mean"], known["mean"].iloc[1:] - known["mean"].iloc[0])
    assert np.allclose(found[["2.5%", "97.5%"]].T, np.quantile(each, [0.025, 0.975], axis=1))
    assert (found["sampling_se"] == 0.0).all()
    assert found.attrs["level"] == flat.level


def test_comparisons_of_numbers_add_a_step(flat, frame):
    found = flat.comparisons("age", step=10, by="device")
    each = by_hand(flat, frame.assign(age=frame["age"] + 10)) - by_hand(flat, frame)
    known = [each[frame["device"] == level].mean() for level in ("phone", "tablet", "tv")]
    assert found["device"].tolist() == ["phone", "tablet", "tv"]
    assert np.allclose(found["mean"], known)
    binary = flat.comparisons("old")
    each = by_hand(flat, frame.assign(old=1)) - by_hand(flat, frame.assign(old=0))
    assert binary["contrast"].tolist() == ["1 - 0"]
    assert np.allclose(binary[["mean", "sd"]], [each.mean(), each.mean(axis=0).std(ddof=1)])


def test_ratios_are_of_average_probabilities(flat, frame):
    found = flat.comparisons("old", comparison="ratio")
    ones, zeros = (by_hand(flat, frame.assign(old=value)).mean(axis=0) for value in (1, 0))
    assert np.allclose(found["mean"], (ones / zeros).mean())


def test_slopes_are_derivatives(flat, frame):
    found = flat.slopes("age", by="old")
    h = 1e-5
    above, below = (by_hand(flat, frame.assign(age=frame["age"] + move)) for move in (h, -h))
    each = (above - below) / (2 * h)
    assert np.allclose(found["mean"], [each[frame["old"] == value].mean() for value in (0, 1)], rtol=1e-4)


@pytest.mark.parametrize("kind", ["flat", "grouped"])
def test_averages_of_many_rows_say_their_error(kind, request, monkeypatch):
    """The sums are off by a draw from N(0, sampling_se^2), about; by 5 of them in 6 of 10 million cases."""
    fit = request.getfixturevalue(kind)
    factor, other = ("device", "old") if kind == "flat" else ("g", "age")
    asked = {
        "predictions": lambda: fit.average_predictions(by=factor),
        "comparisons": lambda: fit.comparisons("age", step=10, by=factor),
        "ratios": lambda: fit.comparisons(other, comparison="ratio"),
        "slopes": lambda: fit.slopes("age"),
    }
    exact = {name: ask() for name, ask in asked.items()}
    monkeypatch.setattr(average_sums, "EVERY_ROW", 1000)
    monkeypatch.setattr(average_sums, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(average_sums, "_ERROR_SHARE", 5.0)
    for name, ask in asked.items():
        found = ask()
        assert (exact[name]["sampling_se"] == 0.0).all()
        assert (found["sampling_se"] > 0.0).all(), name
        off = (found["mean"] - exact[name]["mean"]).abs()
        assert ((off > 0.0) & (off < 5.0 * found["sampling_se"])).all(), name
        assert np.allclose(found["sd"], exact[name]["sd"], rtol=0.1), name
    monkeypatch.setattr(average_sums, "_ERROR_SHARE", 0.0)  # each row is evaluated where the sample does not tell
    monkeypatch.setattr(average_sums, "_NEGLIGIBLE", 0.0)
    assert np.allclose(fit.slopes("age")["mean"], exact["slopes"]["mean"], rtol=1e-9)


def test_averages_by_groups_and_of_all(grouped, frame, monkeypatch):
    found = grouped.average_predictions(by="g")
    p = grouped.predict(frame, kind="draws").to_numpy()
    assert found["g"].tolist() == list(range(8))
    assert np.allclose(found["mean"], [p[:, frame["g"] == g].mean() for g in range(8)], atol=2e-3)
    assert np.allclose(grouped.average_predictions()["mean"], p.mean(), atol=2e-3)
    new = frame.assign(g=100)
    assert 0.3 < grouped.average_predictions(data=new)["mean"][0] < 0.7
    with pytest.raises(ValueError, match="by='g': row 0 of data is of a group"):
        grouped.average_predictions(by="g", data=new)
    monkeypatch.setattr(average_sums, "EVERY_ROW", 1000)  # rows of new groups have no second-order terms
    assert grouped.average_predictions(data=new)["sampling_se"][0] == 0.0


def test_known_groups_have_their_effects_in_averages(grouped, frame):
    rows = frame[frame["g"] == 2]
    found = grouped.slopes("age", data=rows)
    h = 1e-4
    above, below = (grouped.predict(rows.assign(age=rows["age"] + move))["mean"] for move in (h, -h))
    assert found["mean"][0] == pytest.approx(((above - below) / (2 * h)).mean(), rel=0.02)


def test_a_summary_of_the_response_has_each_column(flat):
    found = flat.summary(scale="response")
    assert found.index.tolist() == ["age", "device", "device", "old"]
    assert found["contrast"].tolist() == ["dY/dX", "tablet - phone", "tv - phone", "1 - 0"]
    assert np.allclose(found["mean"]["age"], flat.slopes("age")["mean"])
    assert np.allclose(found["mean"]["device"], flat.comparisons("device")["mean"])
    assert found.attrs["level"] == flat.level


def test_cells_of_a_population_are_poststratified(grouped, frame):
    cells = frame.groupby("g").agg(age=("age", "mean"), n=("age", "size")).reset_index()
    found = grouped.poststratify(cells, by="g", weights="n", prob=0.9)
    known = poststratify(grouped.idata, grouped.coreset, cells, by="g", weights="n", prob=0.9)
    assert found.attrs["level"] == grouped.level
    assert np.allclose(found[["mean", "5%", "95%", "weight"]], known, rtol=1e-12)


def test_draws_of_a_coreset_answer_as_a_fit_does(frame):
    rows = frame.rename(columns={"old": "w"}).assign(w=frame["old"] + 1.0)
    core = bc.build_coreset(
        rows,
        formula="y ~ age + device",
        standardize=True,
        weights="w",
        method="calibrated",
        random_state=1,
        progressbar=False,
    )
    idata = bc.sample(core, prior=bc.priors.Normal(0, (2.0, 3.0, 4.0, 5.0)), random_seed=2, progressbar=False)
    fit = bc.Fit.from_draws(idata, core, rows, weights="w", progressbar=False)
    assert fit.level == bc.certify(idata, core, rows, weights="w", progressbar=False).level
    columns = np.column_stack([rows["age"], rows["device"] == "tablet", rows["device"] == "tv"])
    sd = np.sqrt(np.diag(np.cov(columns, rowvar=False, aweights=rows["w"], ddof=0)))
    assert np.allclose(fit.prior.sigma, [2.0, *(np.array([3.0, 4.0, 5.0]) / sd)])
    assert fit.comparisons("device")["sampling_se"].tolist() == [0.0, 0.0]
    again = fit.with_prior(fit.prior)
    assert np.allclose(again.summary()["mean"], fit.summary()["mean"], atol=0.15 * fit.summary()["sd"].max())
    with pytest.raises(TypeError, match="height='w' is no role"):
        bc.Fit.from_draws(idata, core, rows, height="w")
    with pytest.raises(TypeError, match="y is given and data is not: give the rows too"):
        bc.Fit.from_draws(idata, core, y=rows["y"])
    with pytest.raises(ValueError, match="has the total weight"):
        bc.Fit.from_draws(idata, core, rows.assign(w=2.0 * rows["w"]), progressbar=False)


@pytest.mark.parametrize(
    ("family", "formula"), [("logistic", "y ~ age + device"), ("poisson", "n ~ age + (1 | g)"), ("probit", "y ~ age")]
)
def test_draws_whose_rows_are_gone_answer_what_needs_none(frame, family, formula):
    """As of a stream: what needs no rows is answered as it is with them."""
    rng = np.random.default_rng(3)
    rows = frame.assign(n=rng.poisson(1.0 + frame["old"]))
    core = bc.build_coreset(rows, formula=formula, family=family, random_state=1, progressbar=False)
    assert not core.lossless
    idata = bc.sample(core, random_seed=2, progressbar=False)
    with pytest.warns(UserWarning, match=r"not checked: no rows were given.*Fit.from_draws\(idata, core, rows\)"):
        fit = bc.Fit.from_draws(idata, core)
    known = replace(fit, certificate=replace(fit.certificate, level=Level.CERTIFIED))
    assert fit.level == "not certified"
    assert str(fit).splitlines()[0].endswith("NOT CERTIFIED: not checked")
    for ask in (
        lambda own: own.summary(),
        lambda own: own.predict(rows[:20]),
        lambda own: own.average_predictions(data=rows[:20]),
        lambda own: own.inference_data(rows[:20]).log_likelihood["y"].to_dataset(),
        *([lambda own: own.effects("g")] if core.groups else []),
    ):
        assert ask(fit).equals(ask(known))
    for ask in (fit.loo, fit.check, fit.inference_data, lambda: fit.slopes("age")):
        with pytest.raises(DataError, match=r"does not have all its rows.*fit.update\(data=rows\)"):
            ask()
    with pytest.raises(DataError, match="idata is not of core's posterior"):
        bc.Fit.from_draws(idata, replace(core, weights=2.0 * core.weights))
    assert fit.update(data=rows, progressbar=False).certificate.n_passes > 0


def test_effects_have_ranks(grouped):
    table = grouped.effects()
    assert list(table.index) == list(range(8))
    draws = grouped.effects("g", draws=[3, 5])
    assert np.allclose(draws.mean(("chain", "draw")), table["mean"][[3, 5]])
    assert table["rank"].idxmax() == table["mean"].idxmax()
    assert table["rank"].sum() == pytest.approx(36.0)
    assert (table["rank 2.5%"] <= table["rank"]).all()
    with pytest.raises(ValueError, match="no level"):
        grouped.effects("g", draws=["Kent"])
    with pytest.raises(ValueError, match="county"):
        grouped.effects("county")


def test_icc_and_loo_need_no_roles(grouped, frame):
    sigma = grouped.idata.posterior["sigma_g"].values
    assert grouped.icc()["mean"]["icc_g"] == pytest.approx((sigma**2 / (sigma**2 + np.pi**2 / 3)).mean())
    own = grouped.loo()
    known = loo(grouped.idata, grouped.coreset, frame, progressbar=False)
    name = "elpd" if hasattr(own, "elpd") else "elpd_loo"
    assert getattr(own, name) == getattr(known, name)


def test_a_check_sees_a_model_that_is_wrong(frame):
    """Of ten bins of a right model 0.6 are outside on average, 4 or more in 2 of 1,000 cases."""
    rng = np.random.default_rng(2)
    wrong = frame.assign(y=(np.abs(frame["age"] - 45) > 8) ^ (rng.random(len(frame)) < 0.1))
    fit = bc.fit("y ~ age", wrong, random_state=1, progressbar=False)
    assert fit.check()["outside"].sum() >= 5
    right = frame.assign(y=0.05 * (frame["age"] - 45) + rng.logistic(size=len(frame)) > 0)
    assert bc.fit("y ~ age", right, random_state=1, progressbar=False).check()["outside"].sum() < 4
    assert fit.check(right).attrs["level"] == fit.level


def test_slopes_of_groups_are_in_units_of_the_data(frame):
    """Effects at 0 and sds of slopes come from those of the standardised column, draw by draw."""
    from bayescore.data.design import Design, Grouping

    design = Design(("age",), intercept=True, center=(45.0,), scale=(12.0,))
    A = design.raw_effects_map(Grouping("g", (0, 1), ("1", "age")))
    u, age = np.array([0.3, -0.6]), 61.0
    assert (A @ u) @ [1.0, age] == pytest.approx(u @ [1.0, (age - 45.0) / 12.0])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda fit: fit.comparisons("height"), "'height' is no column"),
        (lambda fit: fit.comparisons("age", by="age"), "by='age' has"),
        (lambda fit: fit.comparisons("age", step=0), "step"),
        (lambda fit: fit.comparisons("age", comparison="log odds"), "comparison='log odds'"),
        (lambda fit: fit.slopes("device"), "is a factor"),
        (lambda fit: fit.summary(scale="logit"), "scale='logit'"),
        (lambda fit: fit.summary(prob=2), "prob"),
        (lambda fit: fit.icc(), "intraclass"),
        (lambda fit: fit.effects(), "none"),
        (lambda fit: fit.comparisons("age", data=pd.DataFrame({"age": [1.0]})), "device"),
    ],
)
def test_bad_input_is_named(flat, ask, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ask(flat)


def test_fits_are_compared_as_they_are(flat, grouped, frame):
    by_fit = bc.loo_compare({"flat": flat, "grouped": grouped}, frame, progressbar=False)
    by_parts = {name: (fit.idata, fit.coreset) for name, fit in {"flat": flat, "grouped": grouped}.items()}
    pd.testing.assert_frame_equal(by_fit, bc.loo_compare(by_parts, frame, progressbar=False))
    pd.testing.assert_frame_equal(by_fit, bc.loo_compare({"flat": flat, "grouped": grouped}, progressbar=False))
    copied = replace(grouped, _given=replace(grouped._given, data=frame.copy()))
    pd.testing.assert_frame_equal(by_fit, bc.loo_compare({"flat": flat, "grouped": copied}, progressbar=False))
    moved = replace(grouped, _given=replace(grouped._given, data=frame[::-1]))
    with pytest.raises(ValueError, match="models must be of the same rows"):
        bc.loo_compare({"flat": flat, "grouped": moved}, progressbar=False)
    with pytest.raises(ValueError, match=r"models\['grouped'\] does not have its rows: give data"):
        bc.loo_compare({"flat": flat, "grouped": replace(grouped, _given=None)}, progressbar=False)
    with pytest.raises(ValueError, match=r"models\['grouped'\] does not have its rows: give data"):
        bc.loo_compare({"flat": flat, "grouped": by_parts["grouped"]}, progressbar=False)
    with pytest.raises(TypeError, match="weights is given and data is not"):
        bc.loo_compare({"flat": flat, "grouped": grouped}, weights="w", progressbar=False)
    with pytest.raises(TypeError, match=r"models\['flat'\] is a str; give a fit, or \(posterior, coreset\)"):
        bc.loo_compare({"flat": "flat", "grouped": grouped}, frame)
    other = flat.with_prior(bc.priors.Normal(0.0, 1.0))
    found = bc.compare_posteriors({"tight": other}, flat).metrics
    pd.testing.assert_frame_equal(found, bc.compare_posteriors({"tight": other.idata}, flat.idata).metrics)
    pd.testing.assert_frame_equal(bc.compare_posteriors(other, flat).metrics.drop("noise floor").reset_index(drop=True),
                                  found.drop("noise floor").reset_index(drop=True))  # fmt: skip


def test_rows_of_a_fit_in_units_of_the_data_have_its_coefficients(flat):
    core = flat.coreset
    own, names = core.to_frame(units="data"), list(core.feature_names)
    beta = np.random.default_rng(0).normal(size=(5, len(names)))
    eta = own[names].to_numpy() @ core.design.raw_coefficients(beta).T
    assert np.allclose(eta, core.X @ beta.T)
    assert not np.allclose(core.to_frame()[names].to_numpy() @ core.design.raw_coefficients(beta).T, eta)
    assert set(own["old"]) <= {0.0, 1.0}
    with pytest.raises(ValueError, match="units='raw' is unknown; choose one of 'design', 'data'"):
        core.to_frame(units="raw")


def test_ratios_are_those_of_the_family(flat):
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)})
    frame["n"] = np.random.default_rng(1).poisson(np.exp(0.3 * frame["x"]))
    counts = bc.fit("n ~ x", frame, family="poisson", random_state=1, progressbar=False)
    draws = np.exp(counts.idata.posterior["coef"].sel(feature="x").values)
    found = counts.summary(scale="ratio")
    assert found.index.tolist() == ["x"]
    assert found.loc["x", "mean"] == pytest.approx(draws.mean())
    pd.testing.assert_frame_equal(flat.summary(scale="ratio"), flat.summary(scale="odds"))
    with pytest.raises(DataError, match=r"scale='odds', but the family is 'poisson'.*; see scale='ratio'"):
        counts.summary(scale="odds")
    pd.testing.assert_frame_equal(counts.summary(scale="rate"), found)
    with pytest.raises(DataError, match=r"scale='rate', but the family is 'logistic', whose .* no log rate ratios"):
        flat.summary(scale="rate")


def test_a_picture_of_a_grouping_factor_is_refused_with_the_way_to_its_effects(grouped):
    with pytest.raises(DataError, match=r"'g' is a grouping factor, .*: fit.effects\('g'\) has them"):
        grouped.plot("g")
    with pytest.raises(DataError, match="'z' is no column that the fit knows; they are 'age'"):
        grouped.plot("z")


def test_a_fit_that_is_certified_uses_all_its_draws(frame):
    """Of groups 500 draws are weighed; where these are certified, the others are as good."""
    twice = pd.concat([frame, frame.assign(age=frame["age"] + 1.0)], ignore_index=True)
    fit = bc.fit("y ~ age + (1 | g)", twice, random_state=5, progressbar=False)
    some = fit._used.isel(draw=slice(0, 125))
    certified = replace(fit, certificate=replace(fit.certificate, level=Level.CERTIFIED, idata=some))
    assert certified._used is fit._drawn
    corrected = replace(fit, certificate=replace(fit.certificate, level=Level.CORRECTED, idata=some))
    assert corrected._used is some  # the control
    moved = replace(fit, certificate=replace(fit.certificate, level=Level.CERTIFIED, idata=fit._drawn.copy()))
    assert moved._used is moved.certificate._idata
