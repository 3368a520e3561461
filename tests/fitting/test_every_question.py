"""Every question to a fit x every family x sources: a frame, a Parquet file, files read again, and all after an update.

The answers are those of the frame's fit, to rounding. A family without an answer refuses it, from each source alike.
"""

import re
import tempfile
import warnings
from functools import cache
from itertools import zip_longest
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescore as bc
from bayescore.validation import DataError
from tests.fitting.printed import without_next

mpl.use("Agg")
N = 240
RNG = np.random.default_rng(12)
ROWS = pd.DataFrame({"x": RNG.normal(size=N).round(3), "g": RNG.integers(0, 6, N)})
ROWS["f"] = RNG.choice(["a", "b", "c"], N)
ETA = 0.5 * ROWS["x"] + 0.6 * (ROWS["f"] == "b") + RNG.normal(0, 0.5, 6)[ROWS["g"]]
ROWS["event"] = (ETA + RNG.logistic(size=N) > 0).astype(int)
ROWS["count"] = RNG.poisson(np.exp(ETA))
ROWS["above"] = ROWS["count"] + 1
ROWS["number"] = (ETA + RNG.normal(size=N)).round(3)
BEFORE, AFTER = ROWS[:200], ROWS[200:]
CELLS = pd.DataFrame({"x": 0.0, "f": ["a", "b", "c"], "g": [0, 1, 2], "n": [5, 3, 2]})
RESPONSES = {
    "logistic": "event",
    "probit": "event",
    "cloglog": "event",
    "poisson": "count",
    "negative_binomial(2.5)": "count",
    "truncated_poisson": "above",
    "normal": "number",
    "normal(1.5)": "number",
}
SHORT = {"draws": 100, "tune": 200, "random_state": 1, "progressbar": False}
# seconds, and effective draws a second, of what was run; how the call names the rows
TIMED = re.compile(
    r"\b[\d.]+ s\b|(?:rows|&#39;[^&]*rows\.parquet&#39;)(?=, family)|\n\d+\.\d+\s+[\d,.]+\s+(?=Largest R-hat)"
)
SOURCES = ("frame", "parquet", "read", "frame updated", "parquet updated", "read updated")
# without the rows: what needs none of them
QUESTIONS = {
    **{f"summary {scale}": lambda fit, _, s=scale: fit.summary(scale=s) for scale in ("coef", "odds", "rate", "ratio")},
    "table": lambda fit, _: fit.table(),
    **{f"predict {kind}": lambda fit, _, k=kind: fit.predict(ROWS.head(5), kind=k, random_state=2)
       for kind in ("mean", "response", "draws")},
    "predict of a new group": lambda fit, _: fit.predict(ROWS.head(2).assign(g=99), random_state=2),
    "effects": lambda fit, _: fit.effects("g"),
    "icc": lambda fit, _: fit.icc(),
    "prior_summary": lambda fit, _: fit.prior_summary()["in_data_units"],
    "poststratify": lambda fit, _: fit.poststratify(CELLS, weights="n"),
    "print": lambda fit, _: repr(fit),
    "notebook": lambda fit, _: fit._repr_html_(),
    "plot": lambda fit, _: fit.plot(),
    "plot_effects": lambda fit, _: fit.plot_effects("g"),
    "report": lambda fit, folder: fit.report(folder / "page.html") or (folder / "page.html").read_text("utf-8"),
}  # fmt: skip
OF_ROWS = {
    "summary response": lambda fit, _: fit.summary(scale="response"),
    "average_predictions": lambda fit, _: fit.average_predictions(by="f"),
    "average_predictions of levels": lambda fit, _: fit.average_predictions(variables="f"),
    "comparisons": lambda fit, _: fit.comparisons("f"),
    "comparisons, draws": lambda fit, _: fit.comparisons("x", comparison="ratio", draws=True),
    "slopes": lambda fit, _: fit.slopes("x", by="f"),
    "check": lambda fit, _: fit.check(),
    "check by": lambda fit, _: fit.check(by="f"),
    "loo": lambda fit, _: fit.loo().pareto_k,
    "prior_predictive": lambda fit, _: fit.prior_predictive(50)["prior_predictive"]["y"],
    "prior_sensitivity": lambda fit, _: fit.prior_sensitivity([1.0]).drop(columns=["parameter", "by", "level"]),
    "inference_data": lambda fit, _: fit.inference_data(max_draws=40)["log_likelihood"]["y"],
    "plot of a column": lambda fit, _: fit.plot("x"),
    "plot_check": lambda fit, _: fit.plot_check(),
    "plot_shrinkage": lambda fit, _: fit.plot_shrinkage("g"),
}


@cache
def fits(family):
    """Return by source the fits of a family."""
    formula = f"{RESPONSES[family]} ~ x + f + (1 | g)"
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name:
        warnings.simplefilter("ignore")
        file = Path(tempfile.mkdtemp()) / "rows.parquet"  # which fits read later
        BEFORE.to_parquet(file)
        first = bc.fit(formula, BEFORE, family=family, **SHORT)
        first.save(f"{name}/first")
        found = {
            "frame": first,
            "parquet": bc.fit(formula, file, family=family, **SHORT),
            "read": bc.read_fit(f"{name}/first", BEFORE, progressbar=False),
        }
        for source in tuple(found):
            found[f"{source} updated"] = found[source].update(AFTER, data=ROWS, progressbar=False)
        found["read alone"] = bc.read_fit(f"{name}/first")
    return found


def numbers(answer):
    """Return what an answer says as arrays and text: tables, arrays, pictures by their lines and texts, and pages."""
    if isinstance(answer, str):
        text = re.sub(r"<style>.*?</style>|<svg.*?</svg>|base64,[^\"']*", "", answer, flags=re.DOTALL)
        return [line for line in TIMED.sub("", re.sub(r"<[^>]*>", "\n", text)).splitlines() if line.strip()]
    if isinstance(answer, pd.DataFrame | pd.Series):
        frame = pd.DataFrame(answer).reset_index()
        return [frame[name].to_numpy() for name in frame]
    if isinstance(answer, xr.DataArray):
        return [answer.to_numpy()]
    if isinstance(answer, np.ndarray) and answer.dtype != object:
        return [answer]
    found = []
    for axes in np.atleast_1d(answer):
        found += [line.get_xydata() for line in axes.get_lines()] + [str(text.get_text()) for text in axes.texts]
        found += [axes.get_xlabel(), axes.get_ylabel(), axes.get_title()]
        mpl.pyplot.close(axes.figure)
    return found


def asked(question, fit):
    """Return the numbers of an answer, or the text of a refusal."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            return numbers(question(fit, Path(folder)))
        except DataError as error:
            return [f"refused: {error}"]


def said_alone(answer):
    """Return an answer in text without the calls that it names as the next ones; any other as it is."""
    return [without_next("\n".join(answer))] if all(isinstance(part, str) for part in answer) else answer


def check_same(one, other, place):
    for a, b in zip_longest(one, other, fillvalue="nothing"):
        if isinstance(a, np.ndarray) and a.dtype.kind in "fiub":
            np.testing.assert_allclose(a.astype(float), np.asarray(b, float), rtol=1e-6, atol=1e-9, err_msg=str(place))
        else:
            assert np.array_equal(a, b), (place, a, b)


def wrong_cells(family):
    """Return the cells of the table, question x source, whose answer is not the frame's, with what differs."""
    by_source, wrong = fits(family), []
    for name, question in {**QUESTIONS, **OF_ROWS}.items():
        for updated in ("", " updated"):
            expected = asked(question, by_source[f"frame{updated}"])
            alone = ["read alone"] if name in QUESTIONS and name != "report" and not updated else []
            for source in [f"parquet{updated}", f"read{updated}", *alone]:
                said = said_alone if source in alone else list
                try:
                    check_same(said(expected), said(asked(question, by_source[source])), (name, source))
                except AssertionError as error:
                    wrong.append(str(error)[:1000])
    return wrong


QUICK = pytest.mark.essential("every question from every source, of one family")
FAMILIES = [pytest.param(name, marks=QUICK if name == "normal" else pytest.mark.slow) for name in RESPONSES]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_question_has_one_answer_from_every_source(family):
    assert not (wrong := wrong_cells(family)), "\n".join(wrong)
