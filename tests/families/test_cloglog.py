"""The complementary log-log family from rows to a certificate, and what families of two different sides ask for."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.cli import main
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import NoModeError
from bayescore.validation import DataError
from tests.hand_made import fit_of

CLOGLOG = FAMILIES["cloglog"]
QUIET = {"family": "cloglog", "progressbar": False}
NAMES = ["Intercept", "age", "size", "rare"]


@pytest.fixture(scope="module")
def table():
    """Rows with 5% events, a skewed column, a rare one, and 40 groups."""
    rng = np.random.default_rng(0)
    n, levels = 30_000, rng.normal(0.0, 0.6, 40)
    rows = pd.DataFrame({"age": rng.normal(size=n), "size": rng.exponential(size=n), "rare": rng.random(n) < 0.03})
    rows = rows.astype(float)
    rows["county"] = rng.integers(0, 40, n).astype(str)
    eta = rows[["age", "size", "rare"]].to_numpy() @ [0.5, -0.4, 0.8] - 3.0 + levels[rows["county"].astype(int)]
    rows["event"] = CLOGLOG.draw(eta, rng).astype(int)
    return rows


@pytest.fixture(scope="module")
def full(table):
    return bc.all_rows(table, formula="event ~ age + size + rare", **QUIET)


def errors(idata, reference):
    """Return the largest errors of means in sds, and of sds relatively; `reference` is a mode."""
    beta = idata.posterior["beta"].values.reshape(-1, len(reference.beta))
    sd = np.sqrt(np.diagonal(reference.covariance))
    return np.abs((beta.mean(axis=0) - reference.beta) / sd).max(), np.abs(beta.std(axis=0) / sd - 1.0).max()


@pytest.mark.parametrize("eta", [-700.0, -300.0, -40.0, -37.0, -36.9, -5.0, -0.7, -0.69, 0.0, 1.5, 3.0])
def test_far_out_the_event_is_the_log_of_its_series(eta):
    """Against the same in more digits: log(1 - e^-t) = eta + log(1 - t/2 + t^2/6 - ...)."""
    with localcontext() as context:
        context.prec = 1000
        t = Decimal(eta).exp()
        s = t / (t.exp() - 1)
        d = s + t - 1
        exact = [float(part) for part in ((1 - (-t).exp()).ln(), s, s * d, s * (d * (d + s) - t))]
    at = np.array(eta)
    found = [float(getattr(CLOGLOG, part)(at, 1)) for part in ("log_p", "score", "curvature", "third")]
    np.testing.assert_allclose(found, exact, rtol=5e-14)


def test_rare_events_are_those_of_the_logit():
    eta = np.linspace(-30.0, -15.0, 50)
    np.testing.assert_allclose(CLOGLOG.log_p(eta, 1), FAMILIES["logistic"].log_p(eta, 1), rtol=1e-6)


def test_dose_and_mortality_of_beetles_as_glm_has_them():
    """Bliss (1935): R's glm with the link cloglog gives -39.572 and 22.041, deviance 3.4464."""
    dose = [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839]
    trials, killed = np.array([59, 60, 62, 56, 63, 59, 62, 60]), np.array([6, 13, 18, 28, 52, 53, 61, 60])
    data = bc.all_rows(np.array(dose)[:, None], killed, trials=trials, intercept=True, **QUIET)
    np.testing.assert_allclose(bc.find_mle(data).beta, [-39.572, 22.041], atol=6e-4)
    np.testing.assert_allclose(np.sqrt(np.diagonal(bc.find_mle(data).covariance)), [3.240, 1.799], rtol=0.03)


@pytest.mark.essential("that a family of two different sides is served from rows to certificate")
@pytest.mark.parametrize("method", ["auto", "calibrated", "condensed", "merge_reduce"])
def test_coresets_meet_the_posterior_of_all_rows(table, full, method):
    """By modes and curvatures, which need no draws; the control takes the events for non-events."""
    options = {} if method == "auto" else {"size": 300}
    core = bc.build_coreset(
        table, formula="event ~ age + size + rare", method=method, random_state=1, **options, **QUIET
    )
    reference, own = bc.find_map(full), bc.find_map(core)
    sd = np.sqrt(np.diagonal(reference.covariance))

    def off(mode):
        return (
            np.abs((mode.beta - reference.beta) / sd).max(),
            np.abs(np.sqrt(np.diagonal(mode.covariance)) / sd - 1).max(),
        )

    mean, spread = off(own)
    assert mean < 0.05
    assert spread < 0.03
    assert core.family == "cloglog"
    assert off(bc.find_map(core, "logistic"))[0] > 0.2


@pytest.mark.parametrize("method", ["uniform", "leverage", "online"])
def test_methods_that_draw_take_it_too(table, method):
    rows = table[["age", "size", "rare"]]
    core = bc.build_coreset(rows, table["event"], method=method, size=400, random_state=1, **QUIET)
    assert core.weight_total == pytest.approx(30_000)
    assert np.isfinite(bc.find_map(core).beta).all()


def test_sensitivities_are_bounded_for_the_logit_only(table):
    with pytest.raises(ValueError, match=r"bounds the logistic likelihood only; family='cloglog'"):
        bc.build_coreset(table[["age"]], table["event"], method="sensitivity", size=40, **QUIET)


@pytest.mark.statistical(rate=1e-6)
def test_draws_are_certified_and_draws_of_the_logit_are_not(table):
    """The certificate's own levels; the control has the logit's draws for those of this family."""
    given = {"formula": "event ~ age + size + rare", "progressbar": False}
    core = bc.build_coreset(table, family="cloglog", size=200, random_state=1, **given)
    idata = bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
    verdict = bc.certify(idata, core, table, progressbar=False)
    assert str(verdict.level) == "certified"
    assert "elpd_loo" in str(verdict)
    mean = fit_of(idata, core).predict(table[:2000])["mean"]
    assert mean.mean() == pytest.approx(table["event"].mean(), rel=0.2)
    other = bc.sample(core, family="logistic", random_seed=1, progressbar=False)
    other.posterior.attrs["family"] = "cloglog"
    assert str(bc.certify(other, core, table, progressbar=False).level) != "certified"


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_group_effects_integrate_out(table, tmp_path):
    """The certificate's level; the control moves the draws."""
    given = {"formula": "event ~ age + size + rare + (1 | county)", "progressbar": False}
    core = bc.build_coreset(table, family="cloglog", random_state=1, **given)
    assert len(core) < 200
    idata = bc.sample(core, draws=500, random_seed=1, progressbar=False)
    sigma = idata.posterior["sigma_county"].values
    np.testing.assert_allclose(idata.posterior["icc_county"].values, sigma**2 / (sigma**2 + math.pi**2 / 6.0))
    assert abs(sigma.mean() - 0.6) < 5.0 * sigma.std()
    verdict = bc.certify(idata, core, table, progressbar=False)
    assert str(verdict.level) == "certified"
    verdict.to_html(tmp_path / "page.html", idata, core)
    assert "cloglog" in (tmp_path / "page.html").read_text(encoding="utf-8")
    idata.posterior["beta"] = idata.posterior["beta"] + 1.0
    assert str(bc.certify(idata, core, table, progressbar=False).level) != "certified"


def blocks(table, *, mixed):
    """Blocks of rows; the first one has non-events alone unless `mixed`."""
    X, y = table[["age", "size", "rare"]].to_numpy(), table["event"].to_numpy()
    first = [slice(0, 3000)] if mixed else [np.flatnonzero(y[:3000] == label) for label in (0, 1)]
    for which in (*first, slice(3000, 15_000), slice(15_000, 30_000)):
        yield X[which], y[which]


def test_a_stream_must_know_which_label_is_the_event(table, full):
    """A symmetric family learns it at the end, as the control does."""
    kwargs = {"method": "merge_reduce", "size": 100, "intercept": True, "random_state": 1, "progressbar": False}
    bc.build_coreset(blocks(table, mixed=False), family="logistic", **kwargs)
    message = "block 0: all labels are 0, and the two sides of the family differ"
    with pytest.raises(DataError, match=message):
        bc.build_coreset(blocks(table, mixed=False), family="cloglog", **kwargs)
    with pytest.raises(DataError, match=message):
        bc.stream(size=100, family="cloglog").partial_fit([[1.0], [2.0]], [0, 0])
    core = bc.build_coreset(blocks(table, mixed=True), family="cloglog", **kwargs)
    told = bc.stream(size=100, family="cloglog", intercept=True, classes=(0, 1))
    for X, y in blocks(table, mixed=False):
        told.partial_fit(X, y)
    reference = bc.find_map(full)
    sd = np.sqrt(np.diagonal(reference.covariance))
    for rows in (core, told.coreset()):
        assert np.abs((bc.find_map(rows).beta - reference.beta) / sd).max() < 0.05


def test_the_first_block_settles_which_label_is_the_event(table, full, tmp_path):
    """The first block orders its labels yes < no, those of the second would be sorted: nothing may be mirrored."""
    stream = bc.stream(size=100, family="cloglog", intercept=True, random_state=1)
    label = np.where(table["event"], "no", "yes")
    X = table[["age", "size", "rare"]].to_numpy()
    stream.partial_fit(X[:3000], pd.Categorical(label[:3000], categories=["yes", "no"], ordered=True))
    stream.save(tmp_path / "stream.npz")
    for own in (stream, bc.read_stream(tmp_path / "stream.npz")):
        own.partial_fit(X[3000:], label[3000:])
        core, reference = own.coreset(), bc.find_map(full)
        assert core.classes == ("yes", "no")
        assert np.abs((bc.find_map(core).beta - reference.beta) / reference.sd).max() < 0.05


@pytest.mark.parametrize("events", [True, False])
def test_separated_labels_are_told_on_either_side(events):
    rng = np.random.default_rng(0)
    x, rare = rng.normal(size=2000), rng.random(2000) < 0.1
    y = x + rng.logistic(size=2000) > 0
    y = y | rare if events else y & ~rare
    full = bc.all_rows(np.column_stack([x, rare]), y, intercept=True, **QUIET)
    with pytest.warns(UserWarning, match="quasi-completely separated"):
        bc.find_mle(full)
    assert np.isfinite(bc.find_map(full).beta).all()


@pytest.mark.filterwarnings("ignore:overflow")
def test_offsets_beyond_what_the_family_reaches_are_told():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 1)), np.arange(100) % 2
    full = bc.all_rows(X, y, offset=np.full(100, 900.0), **QUIET)
    with pytest.raises(NoModeError, match="overflows where the search for its mode starts: are offsets too large"):
        bc.find_map(full)


def test_cuts_of_periods_leave_the_hazard_ratio_alone():
    """Survival in two periods is survival in both: rows of person and period, log length as offset.

    Exact: the likelihood of "no event" is that of the two periods together. The control is the logit.
    """
    x, eta = np.array([0.3]), np.array([-1.2])
    whole = CLOGLOG.log_p(eta, -1)
    halves = 2.0 * CLOGLOG.log_p(eta + math.log(0.5), -1)
    np.testing.assert_allclose(whole, halves, rtol=1e-13)
    logit = FAMILIES["logistic"]
    assert abs(logit.log_p(eta, -1) - 2.0 * logit.log_p(eta + math.log(0.5), -1))[0] > 0.01 * x[0]


def test_the_command_line_takes_it(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table.drop(columns="county")[:5000].to_csv("rows.csv", index=False)
    told = ["--label", "event", "--intercept", "--family", "cloglog", "--size", "60", "--quiet"]
    assert main(["build", "rows.csv", *told, "-o", "core.parquet"]) == 0
    assert bc.read_coreset("core.parquet").family == "cloglog"
