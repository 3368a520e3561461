"""Pictures and the page of a fit."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayescore as bc
from bayescore.tables import rounded


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
    summary = fit.summary().loc[["age", "device[tablet]"]]
    assert np.allclose(marks, summary["mean"])
    texts = [label.get_text() for label in axes.child_axes[0].get_yticklabels()]
    shown = rounded(summary)
    assert texts == [f"{row['mean']} ({row['2.5%']} to {row['97.5%']})" for _, row in shown.iterrows()]


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


def test_there_is_a_line_for_each_level_of_another_column(fit):
    axes = fit.plot("age", by="device")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["device = phone", "device = tablet"]
    ages = axes.lines[0].get_xdata()
    for line, level in zip(axes.lines, ("phone", "tablet"), strict=False):
        known = fit.predict(pd.DataFrame({"age": ages, "device": level, "g": "new"}))
        assert np.allclose(line.get_ydata(), known["mean"], atol=1e-6)
    assert [text.get_text() for text in fit.plot("device", by="age").get_legend().get_texts()][1].startswith("age = 4")


def test_the_text_below_the_axis_says_what_others_are_held_at(fit):
    grouped = bool(fit.coreset.groups)
    held = fit.plot("age").texts[-1].get_text()
    most = fit._given.data["device"].mode()[0]
    assert held == f"held at: device = {most} (most frequent)" + "; averaged over groups of g" * grouped
    assert "age = 45" in fit.plot("device").texts[-1].get_text()
    assert [text.get_text() for text in fit.plot("age", by="device").texts] == ["averaged over groups of g"] * grouped


def test_lines_of_groups_have_their_effects(fit):
    if not fit.coreset.groups:
        with pytest.raises(ValueError, match="'g' is no column that the fit knows"):
            fit.plot("age", by="g")
        return
    axes = fit.plot("device", by="g")
    assert len(axes.get_legend().get_texts()) == 8
    rows = pd.DataFrame({"age": fit._given.data["age"].mean(), "device": ["phone", "tablet"], "g": "c"})
    assert np.allclose(axes.lines[2].get_ydata(), fit.predict(rows)["mean"], atol=1e-6)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda fit: fit.plot(by="device"), "name its column too"),
        (lambda fit: fit.plot("age", by="age"), "by='age' is the column of the curve itself"),
        (lambda fit: fit.plot("age", by="height"), "'height' is no column"),
        (lambda fit: fit.plot_check(by="height"), "by='height' is no column of the data"),
    ],
)
def test_bad_input_of_pictures_is_named(fit, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(fit)


def test_a_check_by_a_column_is_drawn_as_its_table_says(fit):
    table, axes = fit.check(by=["device", "g"]), fit.plot_check(by=["device", "g"])
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"{d}, {g}" for d, g in table[["device", "g"]].values
    ]
    assert np.allclose(axes.lines[1].get_xdata(), table["observed"])
    assert axes.get_xlabel() == "share of y = True by device and g"
    assert axes.get_title(loc="left") == fit.level
    left, _ = fit.plot_check()
    assert np.allclose(left.lines[1].get_ydata(), fit.check()["observed"])


@pytest.mark.statistical(rate=1e-6)
def test_a_check_by_a_column_sees_what_the_model_lacks(fit):
    """Gaps of 12 sds end within an interval of 2 sds with chance 1e-23; a model with the column is fitted to shares."""
    rows = fit._given.data.copy()
    rng = np.random.default_rng(8)
    rows["night"] = rng.random(len(rows)) < 0.5
    eta = 0.08 * (rows["age"] - 45) + 2.0 * (rows["night"] - 0.5)
    rows["y"] = eta + rng.logistic(size=len(rows)) > 0
    lacks = bc.fit("y ~ age", rows, random_state=1, progressbar=False)
    has = bc.fit("y ~ age + night", rows, random_state=1, progressbar=False)
    table = lacks.check(by="night")
    assert table["night"].tolist() == [False, True]
    assert np.allclose(table["observed"], rows.groupby("night")["y"].mean())
    assert table["outside"].all()
    assert not has.check(by="night")["outside"].any()  # their shares are fitted to
    assert lacks.check(rows[rows["night"]], by="night")["outside"].tolist() == [True]


def test_a_rootogram_has_the_counts_of_the_rows():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=2000), "days": rng.uniform(1, 3, 2000)})
    rows["n"] = rng.poisson(rows["days"] * np.exp(0.3 * rows["x"]))
    fit = bc.fit("n ~ x", rows, exposure="days", family="poisson", random_state=1, progressbar=False)
    _, right = fit.plot_check()
    heights = [bar.get_height() for bar in right.patches]
    assert heights[:4] == [(rows["n"] == k).sum() for k in range(4)]
    assert sum(heights) == len(rows)
    assert right.get_xlabel() == "count"
    low, high = np.array([segment[:, 1] for segment in right.collections[0].get_segments()]).T
    assert ((low <= heights) & (heights <= high)).mean() > 0.7
    many = rows.assign(n=rows["n"] * 40)  # bins of several counts
    wide = bc.fit("n ~ x", many, exposure="days", family="poisson", random_state=1, progressbar=False).plot_check()[1]
    assert 10 <= len(wide.patches) <= 30
    assert sum(bar.get_height() for bar in wide.patches) == len(rows)


def test_a_report_has_the_verdict_first_and_the_story(fit, tmp_path):
    fit.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert 0 < text.index(fit.certificate.headline) < text.index("How it was made")
    assert fit.story[0].why.split(":")[0] in text
