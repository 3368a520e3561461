"""Pictures and the page of a fit."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayescore as bc


@pytest.fixture(scope="module", params=["flat", "grouped"])
def fit(request):
    rng = np.random.default_rng(4)
    n = 3000
    rows = pd.DataFrame({"age": rng.normal(45, 12, n), "device": rng.choice(["phone", "tablet"], n)})
    rows["g"] = rng.choice(list("abcdefgh"), n)
    rows["y"] = 0.08 * (rows["age"] - 45) + (rows["device"] == "tablet") + rng.logistic(size=n) > 0
    formula = "y ~ age + device" + " + (1 | g)" * (request.param == "grouped")
    return bc.fit(formula, rows, random_state=1, progressbar=False)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_forest_has_the_coefficients_and_the_level(fit):
    axes = fit.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["age", "device[tablet]"]
    assert axes.get_title(loc="left") == fit.level
    marks = axes.lines[0].get_xdata()
    scale = np.array(fit.coreset.design.scale)[-2:]
    assert np.allclose(marks, fit.summary()["mean"][["age", "device[tablet]"]] * scale)


def test_a_curve_follows_the_prediction(fit):
    axes = fit.plot("age", prob=0.9)
    _, p = axes.lines[0].get_data()
    assert (np.diff(p) > 0).all()
    assert p[0] < 0.3
    assert p[-1] > 0.8
    assert len(axes.lines[1].get_xdata()) >= 300  # the rug
    assert "90%" in axes.get_ylabel()
    of_levels = fit.plot("device")
    assert [label.get_text() for label in of_levels.get_xticklabels()] == ["phone", "tablet"]


def test_a_curve_has_the_other_columns_at_their_means(fit):
    rows = pd.DataFrame({"age": [40.0, 50.0], "device": ["tablet", "tablet"], "g": ["a", "b"]})
    p = fit.plot("device", data=rows).lines[0].get_ydata()
    known = fit.predict(pd.DataFrame({"age": [45.0] * 2, "device": ["phone", "tablet"], "g": ["new", "new"]}))
    assert np.allclose(p, known["mean"], atol=1e-6)


def test_a_report_has_the_verdict_first_and_the_story(fit, tmp_path):
    fit.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert 0 < text.index(fit.certificate.headline) < text.index("How it was made")
    assert fit.story[0].why.split(":")[0] in text
