"""One fit of imputed tables: the mixture of their posteriors, and what such a fit cannot answer."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level
from bayescore.fitting.fit import pooled as mixture_of
from bayescore.validation import DataError

QUIET = {"progressbar": False}
MODELS = {
    "labels": ("y ~ age + bmi", {}),
    "counts": ("visits ~ age + bmi", {"family": "poisson", "exposure": "years"}),
    "numbers": ("cost ~ age + bmi", {"family": "normal"}),
    "groups": ("y ~ age + bmi + (1 | clinic)", {}),
    "columns": (None, {"label": "y", "weights": "w"}),
}


def tables(n=1500, m=3):
    rng = np.random.default_rng(12)
    rows = pd.DataFrame({"age": rng.normal(50, 9, n), "bmi": rng.normal(25, 4, n), "clinic": rng.integers(0, 7, n)})
    eta = 0.05 * (rows["age"] - 50) + 0.15 * (rows["bmi"] - 25) + 0.2 * (rows["clinic"] - 3)
    rows["w"], rows["years"] = rng.uniform(0.5, 1.5, n), rng.uniform(1, 3, n)
    rows["y"] = eta + rng.logistic(size=n) > 0
    rows["visits"], rows["cost"] = rng.poisson(rows["years"] * np.exp(eta / 3)), 10 * eta + rng.normal(0, 5, n)
    missing = rng.random(n) < 0.4
    return [rows.assign(bmi=np.where(missing, rng.normal(25, 4, n), rows["bmi"])) for _ in range(m)]


def fit_of(kind, data, **more):
    formula, options = MODELS[kind]
    if formula is None:
        data = [own[["age", "bmi", "y", "w"]] for own in data] if more else data[["age", "bmi", "y", "w"]]
        return bc.fit(data, **options, random_state=1, **QUIET, **more)
    return bc.fit(formula, data, **options, random_state=1, **QUIET, **more)


@pytest.fixture(scope="module")
def pooled():
    return fit_of("labels", tables(), imputed=True)


@pytest.mark.parametrize("kind", MODELS)
def test_draws_are_the_mixture_of_the_tables_posteriors(kind):
    """Its mean is that of the means, its variance the mean variance and the variance of the means."""
    data = tables()
    fit = fit_of(kind, data, imputed=True)
    each = [fit_of(kind, own).summary() for own in data]
    mean, sd = (np.array([own[name] for own in each]) for name in ("mean", "sd"))
    found = fit.summary()
    total = np.sqrt((sd**2).mean(axis=0) + mean.var(axis=0))
    assert np.allclose(found["mean"], mean.mean(axis=0), atol=0.06 * total.max() if kind != "counts" else 0.01)
    assert (np.abs(found["mean"] - mean.mean(axis=0)) < 0.15 * total).all()
    assert np.allclose(found["sd"], total, rtol=0.08)
    bmi = found.index.get_loc("bmi")
    assert total[bmi] > 1.1 * np.sqrt((sd[:, bmi] ** 2).mean())  # the tables differ
    assert fit.idata.posterior.sizes["chain"] == 4 * len(data)
    assert fit.spread == "pooled over 3 imputed tables"
    assert fit.certificate.text.startswith("Of 3 imputed tables this is the worst: ")
    assert [step.what for step in fit.story][-1] == "pool"


def test_the_certificate_is_the_worst():
    fit = fit_of("labels", tables(m=1)[0])

    def judged(level, bound):
        return replace(fit, certificate=replace(fit.certificate, level=level, mean_bound=bound))

    good, fair = judged(Level.CERTIFIED, 0.05), judged(Level.CERTIFIED, 0.2)
    corrected, refused = judged(Level.CORRECTED, 0.1), judged(Level.NOT_CERTIFIED, 0.01)
    for worst, *others in ((fair, good), (corrected, fair, good), (refused, good, corrected, fair)):
        for order in ([worst, *others], [*others, worst]):
            assert mixture_of(order).certificate.mean_bound == worst.certificate.mean_bound
            assert mixture_of(order).level == worst.level


def test_answers_are_of_all_draws(pooled, tmp_path):
    data = pd.concat(tables())
    draws = pooled.comparisons("age", step=10, data=data, draws=True, max_draws=2400)
    assert draws.sizes == {"chain": 12, "draw": 200, "contrast": 1}
    by_table = draws.values.reshape(3, -1).mean(axis=1)
    assert pooled.comparisons("age", step=10, data=data, max_draws=2400)["mean"].item() == pytest.approx(
        by_table.mean()
    )
    assert pooled.predict(data[:3]).shape == (3, 4)
    pooled.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model")
    assert (again.summary() == pooled.summary()).all(axis=None)
    assert again.spread == pooled.spread
    with pytest.raises(DataError, match="pooled over 3 imputed tables, and not of one"):
        bc.read_fit(tmp_path / "model", tables()[0])
    pooled.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "pooled over 3 imputed tables" in page
    assert "imputed=True" in page


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.average_predictions(),
        lambda fit: fit.check(),
        lambda fit: fit.loo(),
        lambda fit: fit.update(tables()[0]),
        lambda fit: fit.with_prior(bc.priors.Normal(0, 1)),
        lambda fit: fit.cluster_robust("clinic"),
        lambda fit: fit.all_rows_posterior(),
    ],
)
def test_what_is_of_one_table_is_refused(pooled, ask):
    with pytest.raises(DataError, match="pooled over 3 imputed tables"):
        ask(pooled)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda data: bc.fit("y ~ age", data[0], imputed=True),
            "two or more completed tables, and data is a DataFrame",
        ),
        (lambda data: bc.fit("y ~ age", data[:1], imputed=True), "two or more completed tables, and data is 1 of them"),
        (lambda data: bc.fit("y ~ age", data, imputed=True, cluster="clinic"), "goes without cluster"),
        (
            lambda data: bc.fit(
                "y ~ age + (1 | clinic)",
                [data[0], data[1].replace({"clinic": {3: 99}})],
                imputed=True,
                random_state=1,
            ),
            r"data\[1\] has groups that data\[0\] has not",
        ),
    ],
)
def test_bad_input_is_named(ask, message):
    with pytest.raises((DataError, TypeError), match=message):
        ask(tables())
