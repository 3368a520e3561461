"""Updates: months of rows one after another, as one fit of all; rows that moved, and input that is refused."""

import dataclasses
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.cli import main
from bayescore.coresets import multilevel
from bayescore.data.dataset import Dataset
from bayescore.families.family import check_family
from bayescore.fitting import update
from bayescore.fitting.earlier import EarlierRows, kept_from_arrays, kept_to_arrays
from bayescore.models.posterior import log_likelihoods
from bayescore.samplers import groups as collapsed
from bayescore.samplers.posterior import read_posterior
from bayescore.validation import DataError

FORMULA = "y ~ age * device + log(price)"


def month(seed, n=4000, shift=0.0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.gamma(3.0, 12.0, n),
            "device": rng.choice(["phone", "tablet"], n),
            "price": np.exp(rng.normal(size=n)),
            "w": rng.integers(1, 3, n).astype(float),
            "g": rng.integers(seed, 30 + seed, n),
        }
    )
    eta = (0.03 + shift) * (rows["age"] - 36) - 0.8 * (rows["device"] == "tablet") + 0.4 * np.log(rows["price"]) - 1.0
    effect = np.random.default_rng(99).normal(0.0, 0.5, 60)[rows["g"]]
    return rows.assign(y=np.where(eta + effect + rng.logistic(size=n) > 0, "yes", "no"))


def fitted(formula, rows, **roles):
    return bc.fit(formula, rows, random_state=1, progressbar=False, **roles)


def off(fit, other):
    """Return the largest errors of means, in sds, beyond 0.02, and of sds, beyond 2%, in Monte Carlo errors."""
    a, b = fit.summary(), other.summary()
    mcse = np.sqrt(1.0 / a["ess_bulk"] + 1.0 / b["ess_bulk"])
    mean, sd = (a["mean"] - b["mean"]).abs() / b["sd"] - 0.02, (a["sd"] / b["sd"] - 1.0).abs() - 0.02
    return max((mean / mcse).max(), (sd / mcse).max())


@pytest.mark.slow
@pytest.mark.parametrize("formula", [FORMULA, "y ~ age + device + (1 | g)"])
@pytest.mark.statistical(rate=1e-4)  # of 14 figures, two-sided; an sd has a smaller Monte Carlo error than a mean
def test_months_one_after_another_are_as_one_fit(formula, tmp_path):
    months = [month(seed) for seed in range(3)]
    first = fitted(formula, months[0], weights="w")
    fit = first.update(months[1], progressbar=False)
    assert fit.level == "certified", fit.certificate.text
    fit.save(tmp_path / "model")
    fit = bc.read_fit(tmp_path / "model").update(months[2], progressbar=False)
    assert fit.level == "certified", fit.certificate.text
    assert "Earlier rows were not read again" in fit.certificate.text
    assert [own.n_total for own in fit._kept] == [4000, 4000, 4000]
    rows = pd.concat(months, ignore_index=True)
    whole = fitted(formula, rows, weights="w")
    assert fit.coreset.n_total == 12000
    assert fit.coreset.weight_total == pytest.approx(whole.coreset.weight_total, rel=1e-12)
    assert [step.what for step in fit.story[-6:]] == ["update", "sample", "certify"] * 2
    assert fit.summary()["ess_bulk"].min() > 400
    assert off(fit, whole) < 4.5
    assert off(first, whole) > 4.5  # the control
    with pytest.raises(DataError, match="does not have all its rows"):
        fit.slopes("age")
    by_all = fit.update(data=rows, progressbar=False)
    assert by_all.level == "certified"
    assert [own.n_total for own in by_all._kept] == [12000]
    assert by_all.slopes("age")["mean"].between(0.001, 0.01).all()
    if "(1 | g)" in formula:
        assert len(fit.effects("g")) == 32  # two groups were new
        assert len(fit.coreset) < 150


@pytest.mark.slow
def test_a_fit_that_keeps_draws_of_few_groups_is_updated(monkeypatch):
    formula = "y ~ age + device + (1 | g)"
    whole = fitted(formula, month(0)).update(month(1), progressbar=False)
    monkeypatch.setattr(collapsed, "KEPT_BYTES", 5 * 4 * 4000)
    fit = fitted(formula, month(0)).update(month(1), progressbar=False)
    assert fit.idata.posterior["u_g"].sizes["g"] == 5
    assert fit.level == "certified"
    for some, all_ in zip(fit._kept, whole._kept, strict=True):
        assert np.abs(some.point.factors[0].effects - all_.point.factors[0].effects).max() < 0.02


def test_the_search_for_the_centre_begins_at_the_posterior_so_far(monkeypatch):
    fit, joined = fitted("y ~ age + device + (1 | g)", month(0)), update.joined
    sought, asked = multilevel.mode_without_effects, []
    monkeypatch.setattr(multilevel, "mode_without_effects", lambda *given: asked.append(1) or sought(*given))
    found = fit.update(month(1), progressbar=False).coreset
    assert not asked
    monkeypatch.setattr(update, "joined", lambda before, new, _: joined(before, new))
    cold = fit.update(month(1), progressbar=False).coreset
    assert asked
    assert found.params["passes"] <= cold.params["passes"]
    assert len(found) == len(cold)


def rare(seed, n, slope):
    """Return rows with some 40 events in 20,000, and by groups."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x0", "x1"]).assign(g=rng.integers(0, 20, n))
    eta = -6.3 + slope * (rows["x0"] + rows["x1"]) + np.random.default_rng(7).normal(0.0, 0.5, 20)[rows["g"]]
    return rows.assign(y=eta + rng.logistic(size=n) > 0)


@pytest.mark.statistical(rate=1e-6)  # of six figures within a tenth of the bound; Monte Carlo errors are 0.02 sd
def test_draws_of_an_update_that_moves_far_are_right_or_refused(tmp_path, monkeypatch):
    """The earlier coreset is off by 0.5 sd where the posterior goes; of 40,000 rows half are kept."""
    first, later = rare(0, 40_000, 0.2), rare(1, 5_000, 1.5)
    fit = fitted("y ~ x0 + x1", first)
    assert len(fit._kept[0].rows) == 20_000
    fit.save(tmp_path / "model")
    fit = bc.read_fit(tmp_path / "model")
    more = fit.update(later, progressbar=False)
    assert more.level == "corrected", more.certificate.text
    assert (
        "Earlier rows were not read again: the 20,000 of them that the fit kept tell means to" in more.certificate.text
    )
    whole = fitted("y ~ x0 + x1", pd.concat([first, later])).summary()
    own = more.summary()
    assert (np.abs(own["mean"] - whole["mean"]) < 0.15 * whole["sd"]).all()
    assert (np.abs(own["sd"] / whole["sd"] - 1.0) < 0.15).all()
    as_drawn = more._drawn.posterior["coef"].mean(("chain", "draw")).to_numpy()
    assert (np.abs(as_drawn - whole["mean"]) > 0.25 * whole["sd"]).any()  # the control
    monkeypatch.setattr(update, "NEGLIGIBLE_ERROR", 1e-3)
    with pytest.warns(UserWarning, match="not certified"):
        far = fit.update(later, progressbar=False)
    assert "that the fit kept tell means to" in far.certificate.text
    assert "give all rows: fit.update(data=rows)" in far.certificate.text


def test_a_fit_that_kept_nothing_of_its_rows_is_not_certified_by_an_update():
    fit = dataclasses.replace(fitted(FORMULA, month(0)), _kept=())
    with pytest.warns(UserWarning, match="kept nothing of its rows: give all rows"):
        assert fit.update(month(1), progressbar=False).level == "not certified"


@pytest.mark.slow
def test_groups_whose_coreset_is_off_where_the_posterior_goes_are_refused():
    formula = "y ~ x0 + x1 + (1 | g)"
    fit = fitted(formula, rare(0, 20_000, 0.2))
    same = fit.update(rare(1, 5_000, 0.2), progressbar=False)
    assert same.level == "certified"
    assert "what their coreset misses moves means by" in same.certificate.text
    with pytest.warns(UserWarning, match="not certified"):
        far = fit.update(rare(1, 5_000, 1.0), progressbar=False)
    assert re.search(r"moves means by 0\.\d+ sd and sds by \d+%", far.certificate.text)
    assert "fit.update(data=rows)" in far.certificate.text


@pytest.mark.parametrize("formula", ["y ~ x0 + x1", "y ~ x0 + x1 + (1 | g)"])
@pytest.mark.statistical(rate=1e-6)  # five standard errors, told to a tenth by thousands of sampled rows
def test_kept_rows_tell_log_likelihoods_far_off_and_by_how_much_they_err(formula):
    rows = rare(0, 60_000, 0.2)
    core = bc.build_coreset(rows, formula=formula, random_state=1, progressbar=False)
    idata = bc.sample(core, draws=300, random_seed=1, progressbar=False)
    posterior = read_posterior(idata, "idata")
    draws, full = posterior.predictor(), bc.all_rows(rows, design=core.design, progressbar=False)
    kept = EarlierRows.of(Dataset(full.as_source(), full.design), core, draws)
    arrays = kept_to_arrays([kept])
    (again,) = kept_from_arrays(arrays, core)
    family = check_family("logistic")
    far = dataclasses.replace(draws, beta=draws.beta + [0.0, 3.0, 3.0] * draws.beta.std(axis=0))
    for at in (draws, far):
        exact, found = log_likelihoods(at, full, family), again.at(at, family)
        gap = found.values - exact
        assert gap.std() < 5.0 * found.error + 1e-9
        assert found.error < 0.2
    rest = log_likelihoods(far, core, family) - exact
    assert rest.std() > 5.0 * found.error  # the control: the coreset there


def test_new_rows_of_which_no_coreset_is_found_are_all_kept(monkeypatch):
    fit = fitted("y ~ x0 + x1", rare(0, 30_000, 0.2))

    def fails(*_, **__):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(update, "build_coreset", fails)
    more = fit.update(rare(1, 1000, 0.2), progressbar=False)
    assert len(more.coreset) == len(fit.coreset) + 1000
    assert more.level == "certified"
    grouped = fitted("y ~ x0 + x1 + (1 | g)", rare(0, 3000, 0.5))
    monkeypatch.setattr(update, "build_dataset", fails)
    with pytest.raises(DataError, match=r"no coreset of the new rows was found \(singular\); give all rows"):
        grouped.update(rare(1, 1000, 0.2), progressbar=False)


def test_rows_of_few_kinds_stay_exact():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.integers(0, 5, 3000)})
    rows["y"] = rng.random(3000) < 0.2 + 0.1 * rows["x"]
    fit = fitted("y ~ x", rows[:2000]).update(rows[2000:], progressbar=False)
    whole = fitted("y ~ x", rows)
    assert fit.coreset.lossless
    assert len(fit.coreset) == len(whole.coreset)
    assert fit.level == "certified"


def test_input_that_is_refused():
    fit, more = fitted(FORMULA, month(0)), month(1)
    for bad, message in (
        (more.assign(device="watch"), "level 'watch'.*'phone', 'tablet'"),
        (more.drop(columns="price"), "no feature 'price'"),
        (more.assign(y="maybe"), "'maybe'.*'no' and 'yes'"),
        (more.assign(price=-1.0), "log"),
        (more.drop(columns="y"), "label='y'"),
    ):
        with pytest.raises(DataError, match=message):
            fit.update(bad, progressbar=False)
    with pytest.raises(TypeError, match="new is missing"):
        fit.update()
    with pytest.raises(TypeError, match="rows come once"):
        fit.update(iter([(more[["age"]].to_numpy(), more["y"])]))
    with pytest.raises(TypeError, match="new is a Coreset; give rows"):
        fit.update(fit.coreset)


def test_the_command_line_updates_a_folder(tmp_path, capsys):
    for seed in range(2):
        month(seed).to_parquet(tmp_path / f"{seed}.parquet")
    model, more = str(tmp_path / "model"), str(tmp_path / "1.parquet")
    assert main(["fit", str(tmp_path / "0.parquet"), FORMULA, "-o", model, "--quiet"]) == 0
    assert main(["update", model, more, "--quiet"]) == 0
    assert "8,000 observations" in capsys.readouterr().out
    assert bc.read_fit(model).coreset.n_total == 8000
    assert main(["update", model]) == 2
    assert "--data" in capsys.readouterr().err


def written(n):
    """Write a file for each month here; return their names."""
    names = [f"month-{seed:02d}.parquet" for seed in range(n)]
    for seed, name in enumerate(names):
        month(seed).to_parquet(name)
    return names


def test_files_from_the_command_line_update_one_after_another(tmp_path, capsys, monkeypatch):
    """Those before one that cannot be used are in the fit."""
    monkeypatch.chdir(tmp_path)
    first, *later = written(3)
    assert main(["fit", first, FORMULA, "-o", "model", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["update", "model", *later, "--quiet"]) == 0
    said, verdict = capsys.readouterr().out.splitlines()[:2]
    assert said == "month-01.parquet: certified, 8,000 observations so far"
    assert verdict.endswith(" CERTIFIED")
    month(21).assign(device="watch").to_parquet("bad.parquet")
    for files, message in (
        (("bad.parquet", "gone"), "gone does not exist; give files of new rows"),
        (("bad.parquet", first), "bad.parquet: "),
    ):
        assert main(["update", "model", *files, "--quiet"]) == 2
        assert message in capsys.readouterr().err
        assert bc.read_fit("model").coreset.n_total == 12_000
    assert main(["update", "model", first, "bad.parquet", "--quiet"]) == 2
    assert re.search("bad.parquet: .*/model has the files before it", capsys.readouterr().err)
    assert bc.read_fit("model").coreset.n_total == 16_000


@pytest.mark.slow
def test_half_a_year_of_files_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = written(6)
    assert main(["fit", names[0], FORMULA, "-o", "model", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["update", "model", *names[1:], "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        f"{name}: certified, {4000 * (k + 2):,} observations so far" for k, name in enumerate(names[1:-1])
    ]
    assert lines[4].endswith(" CERTIFIED")
    table = bc.read_fit("model").summary()
    fit = bc.fit(FORMULA, names[0], random_state=0, progressbar=False)
    for name in names[1:]:
        fit = fit.update(name, progressbar=False)
    assert table.equals(fit.summary())
    at_once = bc.fit(FORMULA, pd.concat(map(pd.read_parquet, names)), random_state=5, progressbar=False).summary()
    assert (np.abs(table["mean"] - at_once["mean"]) < 0.2 * at_once["sd"]).all()


def test_a_file_that_comes_twice_is_named(tmp_path):
    later = tmp_path / "month.parquet"
    month(1).to_parquet(later)
    fit = fitted(FORMULA, month(0)).update(later, progressbar=False)
    assert [step.why.partition(" beside")[0] for step in fit.story if step.what == "update"] == [
        f"rows of {str(later)!r}"
    ]
    fit.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model")
    with pytest.warns(
        UserWarning, match=r"new='.*month\.parquet' was added before: rows that are the same count twice"
    ):
        again.update(later, progressbar=False)
    month(2).to_parquet(tmp_path / "other.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.update(tmp_path / "other.parquet", progressbar=False)
