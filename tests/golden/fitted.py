"""What fits answer: of every family with every kind of terms what is printed, summarised, predicted and checked.

What a model does not serve is recorded too: the error and its message.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from tests.golden import view
from tests.golden.case import CHAINS, Fields, case
from tests.golden.fitted_models import FLAT, LABELS, MODELS, NEW, Model, fit_of

SCALES = ("coef", "odds", "ratio", "response")
KINDS = ("mean", "draws", "response")
SENSITIVITY = (0.25, 1.0)
EVERY_DRAW = 800
EVERY_ROW = 20
PAGES = (
    "logistic, score + device",
    "poisson, x + (1 | g)",
    "poisson, score + (1 | g)",
    "normal, x + (1 + x | a)",
    "logistic, x + (1 | a) + (1 | b)",
)


def answer(name: str, ask: Callable[[], Any], seen: Callable[[Any, str], Fields]) -> Fields:
    """Return what is seen of an answer, under a name; or its refusal, in words."""
    try:
        value = ask()
    except (ValueError, TypeError) as error:  # a DataError is a ValueError
        return {f"{name} refused": f"{type(error).__name__}: {error}".splitlines()}
    return seen(value, name)


def tables(asked: dict[str, Callable[[], pd.DataFrame]]) -> Fields:
    """Return what is seen of several tables, by their names."""
    return {key: value for name, ask in asked.items() for key, value in answer(name, ask, view.of_figures).items()}


def seen_summary(table: pd.DataFrame, name: str) -> Fields:
    """Return what is seen of a table of parameters, R-hat in four digits.

    R-hat ranks distances from the median, of which those of the two draws in the middle are equal but for rounding:
    their order changes its sixth digit.
    """
    r_hat = {"r_hat": [f"{value:.4f}" for value in table["r_hat"]]} if "r_hat" in table else {}
    return view.of_figures(table.assign(**r_hat), name)


def printed(model: Model, fit: Any) -> Fields:
    """Return what a fit prints, its level and its story."""
    story = [f"{step.what}, {step.rows} rows, {step.passes} passes: {step.why}" for step in fit.story]
    return {"level": [fit.level], "printed": repr(fit).splitlines(), "story": story}


def summary(model: Model, fit: Any) -> Fields:
    """Return the parameters on each scale."""
    found: dict[str, Any] = {}
    for scale in SCALES:
        found |= answer(f"summary, {scale}", partial(fit.summary, scale=scale), seen_summary)
    return found


def predict(model: Model, fit: Any) -> Fields:
    """Return predictions of new rows of all kinds, in groups that the fit knows and in others."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        seen = view.of_figures if kind == "mean" else partial(view.of_some_draws, every=EVERY_DRAW)
        found |= answer(f"predict, {kind}", partial(fit.predict, NEW, kind=kind, random_state=1), seen)
    if model.factors:
        averaged = partial(fit.predict, NEW, new_groups="average")
        return found | answer("predict, averaged over new groups", averaged, view.of_figures)
    unknown = NEW.assign(device=["television", *NEW["device"][1:]])
    return found | answer("predict, unknown level", partial(fit.predict, unknown), view.of_figures)


def averages(model: Model, fit: Any) -> Fields:
    """Return comparisons, slopes and average predictions, of all rows and of parts."""
    number, part = model.number, model.factors[-1] if model.factors else "device"
    return tables(
        {
            "comparisons": partial(fit.comparisons, number),
            "comparisons, device": partial(fit.comparisons, "device"),
            f"comparisons, ratio by {part}": partial(fit.comparisons, number, by=part, step=0.5, comparison="ratio"),
            "slopes": partial(fit.slopes, number),
            "slopes, device": partial(fit.slopes, "device"),
            "average_predictions": fit.average_predictions,
            f"average_predictions, by {part}": partial(fit.average_predictions, by=part),
            "average_predictions, device": partial(fit.average_predictions, variables="device"),
        }
    )


def groups(model: Model, fit: Any) -> Fields:
    """Return the effects of groups, and the intraclass correlation."""
    asked = {
        f"effects, {effect} by {name}": partial(fit.effects, name, effect=effect) for name, effect in model.effects
    }
    return tables({"effects": fit.effects, "icc": fit.icc, **({} if len(asked) == 1 else asked)})


def check(model: Model, fit: Any) -> Fields:
    """Return predictions held against labels."""
    return tables({"check": fit.check})


def loo(model: Model, fit: Any) -> Fields:
    """Return the leave-one-out densities of some rows, and of all together."""
    return answer("loo", fit.loo, partial(view.of_some_rows_left_out, every=EVERY_ROW))


def prior_summary(model: Model, fit: Any) -> Fields:
    """Return the prior of each coefficient."""
    return tables({"prior_summary": fit.prior_summary})


def prior_sensitivity(model: Model, fit: Any) -> Fields:
    """Return how the parameters move with the scale of the prior."""
    return tables({"prior_sensitivity": partial(fit.prior_sensitivity, SENSITIVITY)})


def page(model: Model, fit: Any) -> Fields:
    """Return the text of the page, and of what a notebook shows."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        fit.report(path)
        shown = Path(folder) / "shown.html"
        shown.write_text(fit._repr_html_(), encoding="utf-8")
        text = view.of_page(path)["text"]
        if fit.coreset.lossless:  # whose tables are sorted by errors that are rounding alone
            text = rows_sorted(text)
        return {"text": text, "notebook": view.of_page(shown)["text"]}


def rows_sorted(lines: list[str]) -> list[str]:
    """Return the lines of a page with the rows of each table in the order of the alphabet."""
    runs = groupby(lines, key=lambda line: line.startswith("|"))
    return [line for in_table, run in runs for line in (sorted(run) if in_table else run)]


def of_model(name: str, verb: Callable[[Model, Any], Fields]) -> Fields:
    """Return what the fit of a model answers to a verb."""
    return verb(MODELS[name], fit_of(name))


VERBS = (printed, summary, predict, averages, groups, check, loo, prior_summary)


for _name, _verb in product(MODELS, VERBS):
    # k-hat of a row makes a thousand times as much of rounding as a mean does, and so do ratios of averages near 0 and,
    # by ranks, R-hat of shares
    options = {"tolerance": 10.0 * CHAINS if _verb is groups else CHAINS} if _verb in (loo, groups, averages) else {}
    case(f"{_name}: {_verb.__name__}", of_stack=_verb is loo, **options)(partial(of_model, _name, _verb))
for _family in LABELS:
    case(f"{_family}, {FLAT}: prior_sensitivity")(partial(of_model, f"{_family}, {FLAT}", prior_sensitivity))
for _name in PAGES:
    case(f"{_name}: page")(partial(of_model, _name, page))
