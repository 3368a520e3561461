"""The documentation's calls in R: a coreset's file, as CSV or Parquet, gives there what it gives here."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "hand-over-to-r.md"
CSV = "read.csv('core.csv')"
STOPPED = 1e-3  # glm's own tolerance leaves 1e-4 of a probit coefficient
READERS = {  # of R's packages that read Parquet
    "arrow": "as.data.frame(arrow::read_parquet('core.parquet'))",
    "nanoparquet": "as.data.frame(nanoparquet::read_parquet('core.parquet'))",
}


def in_r(code, folder):
    """Return what R prints, as numbers."""
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript not found (Debian: r-base-core): the calls in R did NOT run")
    done = subprocess.run(
        ["Rscript", "-e", f"options(digits = 17); {code}"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), dtype=float)


def need(package, folder):
    if not in_r(f"cat(as.integer(requireNamespace('{package}', quietly = TRUE)))", folder)[0]:
        pytest.skip(f"R's package {package} is not installed: the call with it did NOT run")


def call(name):
    """Return the call of R in the page that begins so, its label named y; lines that go on are set in."""
    block = re.search(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block, "the page has no R"
    lines = re.sub(r"\n +", " ", re.sub(r"\badmitted\b", "y", block[1])).splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    return line


def prepared(read):
    return f"core <- {read}; names(core) <- make.names(names(core)); {call('core$y <-')}\n"


@pytest.fixture(params=range(8))
def core(request, tmp_path):
    """Few rows with weights of up to 1e5, for which R's own start is far off; written both ways."""
    rng = np.random.default_rng(request.param)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    y = np.where(X @ [-3.0, 1.0, -2.0] + rng.logistic(size=60) > 0, "yes", "No")  # sorted otherwise in R's locales
    rows = pd.DataFrame(X, columns=["Intercept", "dose", "a b"]).assign(y=y, w=10 ** rng.uniform(1, 5, 60))
    core = bc.all_rows(rows, label="y", weights="w", progressbar=False)
    core.save(tmp_path / "core.parquet")
    core.to_frame().to_csv(tmp_path / "core.csv", index=False)
    return core


def coefficients(read, glm):
    return f"{prepared(read)}cat(coef(suppressWarnings({glm})))"


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_glm_finds_the_maximum_of_the_csv(core, family, tmp_path):
    glm = call("glm(").replace("binomial", f"binomial('{'logit' if family == 'logistic' else family}')")
    np.testing.assert_allclose(in_r(coefficients(CSV, glm), tmp_path), bc.find_mle(core, family).beta, rtol=STOPPED)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_glm_takes_the_offset_of_the_file(family, tmp_path):
    rng = np.random.default_rng(0)
    X, o = np.column_stack([np.ones(200), rng.normal(size=(200, 2))]), rng.normal(size=200)
    y = np.where(X @ [-0.5, 1.0, -1.0] + o + rng.logistic(size=200) > 0, "yes", "No")
    core = bc.all_rows(X, y, weights=rng.uniform(0.5, 3.0, 200), offset=o, progressbar=False)
    core.to_frame().to_csv(tmp_path / "core.csv", index=False)
    glm = call("glm(").replace("- weight", "- weight - offset").replace("- 2)", "- 3), offset = offset")
    exact = glm.replace("binomial", f"binomial('{'logit' if family == 'logistic' else family}')")[:-1]
    found = in_r(coefficients(CSV, f"{exact}, control = glm.control(1e-14, 100))"), tmp_path)
    np.testing.assert_allclose(found, bc.find_mle(core, family).beta, rtol=1e-6)
    assert np.abs(found - bc.find_mle(bc.all_rows(X, y, progressbar=False), family).beta).max() > 0.05


@pytest.mark.parametrize(("family", "name"), [("logistic", "logit"), ("probit", "probit")])
def test_counts_with_an_offset_have_the_coefficients_of_glm(family, name, tmp_path):
    """R's own way, cbind(successes, failures), to its last digits; `find_mle` is the flat prior's limit."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "o"]).assign(n=rng.integers(0, 12, 300))
    rows["s"] = rng.binomial(rows["n"], 1 / (1 + np.exp(0.4 - rows["a"] + rows["b"] - rows["o"])))
    rows.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    told = f"binomial('{name}'), read.csv('rows.csv'), offset = o, control = glm.control(1e-14, 100)"
    found = in_r(f"cat(coef(suppressWarnings(glm(cbind(s, n - s) ~ a + b, {told}))))", tmp_path)
    core = bc.all_rows(rows, label="s", trials="n", offset="o", intercept=True, progressbar=False)
    np.testing.assert_allclose(bc.find_mle(core, family).beta, found, rtol=1e-6)
    near = bc.find_map(core, family, bc.priors.Normal(0, 1e4)).beta
    np.testing.assert_allclose(near, found, atol=1e-6)


@pytest.mark.parametrize("core", [1, 3, 6], indirect=True)
def test_without_a_start_it_does_not(core, tmp_path):
    glm = re.sub(r", start = .*\)$", ")", call("glm("))
    assert np.abs(in_r(coefficients(CSV, glm), tmp_path)).max() > 1e10


@pytest.mark.parametrize("core", [1], indirect=True)
@pytest.mark.parametrize("package", READERS)
def test_glm_finds_the_maximum_of_the_parquet_file(core, package, tmp_path):
    need(package, tmp_path)
    found = in_r(coefficients(READERS[package], call("glm(")), tmp_path)
    np.testing.assert_allclose(found, bc.find_mle(core).beta, rtol=STOPPED)


@pytest.mark.parametrize("core", [1], indirect=True)
def test_rstanarm_has_the_same_posterior(core, tmp_path):
    need("rstanarm", tmp_path)
    fit = f"{call('rstanarm::stan_glm(')[:-1]}, seed = 1, refresh = 0)"
    found = in_r(f"{prepared(CSV)}cat(colMeans(as.matrix({fit})))", tmp_path)
    draws = bc.sample(core, sampler="mala", random_seed=0, progressbar=False).posterior["beta"]
    error = (found - draws.mean(("chain", "draw"))) / draws.std(("chain", "draw"))
    assert np.abs(error).max() < 0.15  # Monte Carlo errors of 0.03 at most


@pytest.mark.parametrize("core", [1], indirect=True)
def test_brms_sees_rows_and_weights(core, tmp_path):
    need("brms", tmp_path)
    rows = call("brms::brm(").replace("brm(", "make_standata(")
    code = f"{prepared(CSV)}s <- suppressWarnings({rows}); cat(s$weights, s$Y, s$X)"
    expected = np.concatenate([core.weights, core.y > 0, core.X.T.ravel()])
    np.testing.assert_allclose(in_r(code, tmp_path), expected, rtol=1e-12)


@pytest.mark.parametrize(("family", "name"), [("logistic", "logit"), ("probit", "probit")])
def test_pseudo_rows_have_the_coefficients_of_glm_as_rows_and_as_counts(family, name, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 3))
    y = np.where(X @ [0.5, 1.0, -1.0] - 1.0 + rng.logistic(size=4000) > 0, "yes", "No")
    core = bc.build_coreset(
        X, y, method="condensed", family=family, size=20, intercept=True, random_state=0, progressbar=False
    )
    core.to_frame().to_csv(tmp_path / "core.csv", index=False)
    core.to_counts().to_csv(tmp_path / "counts.csv", index=False)
    exact = "control = glm.control(1e-14, 100))"
    glm = call("glm(").replace("- weight", "- weight - offset").replace("- 2)", "- 3), offset = offset")
    as_rows = f"{glm.replace('binomial', f'binomial({name!r})')[:-1]}, {exact}"
    counts = re.search(r"`(glm\(cbind.*?\))`", PAGE.read_text(encoding="utf-8").replace("\n", " "))[1]
    as_counts = f"{counts.replace('binomial', f'binomial({name!r})')[:-1]}, {exact}"
    mode = bc.find_mle(core, family).beta
    np.testing.assert_allclose(in_r(coefficients(CSV, as_rows), tmp_path), mode, rtol=1e-6)
    code = f"counts <- read.csv('counts.csv'); cat(coef(suppressWarnings({as_counts})))"
    np.testing.assert_allclose(in_r(code, tmp_path), mode, rtol=1e-6)


def test_lm_of_sums_of_numbers_has_the_coefficients_of_all_rows(tmp_path):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"a": rng.normal(3, 2, 800), "d": rng.choice(list("pt"), 800)})
    rows["target"] = 5 + 0.7 * rows["a"] - 2 * (rows["d"] == "t") + rng.normal(0, 2, 800)
    core = bc.build_coreset(rows, formula="target ~ a + d", family="normal(2)", progressbar=False)
    core.to_frame().to_csv(tmp_path / "core.csv", index=False, float_format="%.17g")
    page = (PAGE.parent / "numbers.md").read_text(encoding="utf-8")
    (lm,) = re.findall(r"`(lm\(.*?)\)`", page)
    found = in_r(f"cat(coef({lm}, data = {CSV})))", tmp_path)
    X = np.column_stack([np.ones(800), rows["a"], rows["d"] == "t"])
    np.testing.assert_allclose(found, np.linalg.lstsq(X, rows["target"], rcond=None)[0], rtol=1e-8)
