"""The rows, the models and the fits that golden cases of `fit` share; each fit is made once a process.

They are few rows and few groups, so that a fit takes a second or two of CPU time once its kernels are compiled. Most
have a column x of few values, whose coresets are exact; of a column score of many values rows stand for others. No fit
is large enough for an escalation that the clock decides.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from tests.golden import view

SEED = 5
FEW, MANY = 700, 1_500
COMPILED = r" \(\d+ s of it compiling, once\)"


def made(n: int) -> pd.DataFrame:
    """Return numbers, a factor, three grouping factors, and labels, counts, trials and numbers that follow from x."""
    rng = np.random.default_rng(21)
    rows = pd.DataFrame(
        {
            "x": np.round(rng.normal(size=n), 1),
            "device": rng.choice(["phone", "tablet", "watch"], n, p=[0.5, 0.3, 0.2]),
            "a": rng.integers(0, 6, n),
            "b": rng.integers(0, 5, n),
        }
    )
    effect_a, effect_b, slope_a = rng.normal(0.0, [[0.7], [0.5], [0.4]], (3, 6))
    predictor = 0.5 * rows["x"] + rows["device"].map({"phone": 0.0, "tablet": 0.4, "watch": -0.3}) - 0.2
    predictor += effect_a[rows["a"]] + effect_b[rows["b"]] + slope_a[rows["a"]] * rows["x"]
    rows["bought"] = np.where(predictor + rng.logistic(size=n) > 0, "yes", "no")
    rows["visits"] = rng.poisson(np.exp(0.5 * predictor) * rng.gamma(2.5, 1.0 / 2.5, n))
    rows["spent"] = np.round(predictor + rng.normal(0.0, 1.2, n), 2)
    rows["shown"] = rng.integers(1, 5, n)
    rows["clicks"] = rng.binomial(rows["shown"], 1.0 / (1.0 + np.exp(-predictor)))
    rows["days"] = rng.choice([0.5, 1.0, 2.0], n)
    rows["base"] = rng.choice([-0.5, 0.0, 0.5], n)
    rows["score"] = rows["x"] + rng.normal(0.0, 0.5, n)
    rows["g"] = "g" + rows["a"].astype(str)
    return rows.assign(a="a" + rows["a"].astype(str), b="b" + rows["b"].astype(str))


ROWS = {n: made(n) for n in (FEW, MANY)}
FACTORS = ("a", "b", "g")


def _new_rows() -> pd.DataFrame:
    """Return four rows of known groups, and four of groups that no fit knows."""
    rows = ROWS[FEW].iloc[::90].reset_index(drop=True)
    rows.loc[4:, list(FACTORS)] = "never seen"
    return rows


NEW = _new_rows()


@dataclass(frozen=True)
class Model:
    """A formula, its family, and the roles of other columns."""

    family: str
    terms: str
    label: str
    roles: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What cases call it."""
        return ", ".join([self.family, self.terms, *self.roles])

    @property
    def formula(self) -> str:
        """Label and terms."""
        return f"{self.label} ~ {self.terms}"

    @property
    def rows(self) -> pd.DataFrame:
        """The rows that it is fitted to."""
        return ROWS[MANY if self.terms.startswith("score") else FEW]

    @property
    def number(self) -> str:
        """Its column of numbers."""
        return self.terms.split()[0]

    @property
    def factors(self) -> list[str]:
        """Its grouping factors."""
        return [name for name in FACTORS if f"| {name})" in self.terms]

    @property
    def effects(self) -> list[tuple[str, str]]:
        """Each grouping factor with each of the effects that vary by it."""
        return [
            (name, effect) for name in self.factors for effect in ("1", "x") if effect == "1" or "1 + x" in self.terms
        ]


FLAT, ONE, CROSSED, SLOPES = "x + device", "x + (1 | g)", "x + (1 | a) + (1 | b)", "x + (1 + x | a)"
TERMS = (FLAT, ONE, CROSSED, SLOPES)
LABELS = {
    "logistic": "bought",
    "probit": "bought",
    "cloglog": "bought",
    "poisson": "visits",
    "negative_binomial(2.5)": "visits",
    "normal": "spent",
    "normal(2.5)": "spent",
}
_MODELS = [Model(family, terms, label) for family, label in LABELS.items() for terms in TERMS]
_MODELS += [Model(family, "score + device", LABELS[family]) for family in ("logistic", "poisson")]
_MODELS += [Model(family, "score + (1 | g)", LABELS[family]) for family in ("logistic", "poisson")]
_MODELS += [Model(family, "x + (1 + x || a)", LABELS[family]) for family in ("logistic", "normal")]
_MODELS += [Model("negative_binomial", terms, "visits") for terms in (FLAT, ONE)]  # whose size is a parameter
_MODELS += [Model("gamma", terms, "days") for terms in (FLAT, ONE)]  # whose shape is one
_MODELS.append(Model("logistic", FLAT, "clicks", {"trials": "shown"}))
_MODELS.append(Model("poisson", FLAT, "visits", {"exposure": "days"}))
_MODELS.append(Model("poisson", FLAT, "visits", {"offset": "base"}))
MODELS = {model.name: model for model in _MODELS}


@cache
def fit_of(name: str) -> Any:
    """Return the fit of a model."""
    return fitted(MODELS[name])


def fitted(model: Model, rows: pd.DataFrame | None = None, random_state: int = SEED, **options: Any) -> Any:
    """Return the fit of a model of its rows, or of others, as if it had taken no time and had compiled nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows as few as these
        told = {"family": model.family, "random_state": random_state, "progressbar": False}
        return timeless(bc.fit(model.formula, model.rows if rows is None else rows, **told, **model.roles, **options))


def timeless(fit: Any) -> Any:
    """Return a fit whose story, draws and certificate tell no time that depends on the machine."""
    view.undated(fit._drawn)
    story = tuple(replace(step, seconds=0.0, why=re.sub(COMPILED, "", step.why)) for step in fit.story)
    return replace(fit, story=story)
