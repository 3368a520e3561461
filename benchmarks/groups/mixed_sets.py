"""Sets of mixed models: thirty made ones, by seed, and published ones with their published models.

Published rows are csv files called after their R package and name, as `lme4_cbpp.csv`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayescore.families.family import check_family
from benchmarks.problems import SHARED

MEAN_OF_X = 20.0


@dataclass(frozen=True)
class Terms:
    """The group terms of a made set: levels, rows, sds of effects and the correlation of any two of one factor."""

    kind: str
    levels: tuple[int, ...]
    rows: int  # of a level of the last factor; of all where factors are crossed
    sds: tuple[float, ...]
    rho: float = 0.0
    intercept: float = 0.0


# text of the group terms and the columns that vary by the first factor
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "one factor": ("(1 | a)", ("1",)),
    "slope": ("(1 + x | a)", ("1", "x")),
    "two slopes": ("(1 + x + z | a)", ("1", "x", "z")),
    "factor": ("(0 + f | a)", ("f",)),
    "crossed": ("(1 | a) + (1 | b)", ("1",)),
    "slope, crossed": ("(1 + x | a) + (1 | b)", ("1", "x")),
    "nested": ("(1 | a / b)", ("1",)),
}

MADE: tuple[tuple[str, Terms], ...] = (
    ("logistic", Terms("one factor", (5,), 50, (1.0,))),
    ("logistic", Terms("one factor", (300,), 4, (5.0,))),
    ("probit", Terms("one factor", (2000,), 2, (2.0,))),
    ("cloglog", Terms("one factor", (100,), 5, (0.02,), intercept=-1.0)),
    ("cloglog", Terms("one factor", (30,), 3, (3.0,))),
    ("poisson", Terms("one factor", (400,), 1, (0.7,))),
    ("poisson", Terms("one factor", (20,), 20, (3.0,))),
    ("negative_binomial(2)", Terms("one factor", (60,), 10, (0.5,), intercept=1.0)),
    ("normal", Terms("one factor", (8,), 4, (10.0,))),
    ("normal", Terms("one factor", (500,), 2, (0.1,))),
    ("logistic", Terms("slope", (300,), 7, (4.0, 0.5), -0.5, -1.5)),
    ("logistic", Terms("slope", (20,), 30, (1.0, 0.02), 0.9)),
    ("probit", Terms("slope", (50,), 10, (0.5, 1.0), 0.95)),
    ("cloglog", Terms("slope", (60,), 15, (1.0, 1.0), 0.8, -1.0)),
    ("poisson", Terms("slope", (100,), 5, (1.0, 0.3), -0.95)),
    ("negative_binomial(3)", Terms("slope", (40,), 20, (0.7, 0.4), 0.5, 1.0)),
    ("normal", Terms("slope", (18,), 10, (2.0, 1.0), 0.1)),
    ("normal", Terms("slope", (200,), 3, (10.0, 0.1), -0.9)),
    ("logistic", Terms("two slopes", (80,), 20, (1.0, 0.5, 0.5), 0.3)),
    ("poisson", Terms("two slopes", (50,), 10, (0.5, 0.3, 0.1), -0.3)),
    ("normal", Terms("two slopes", (30,), 12, (1.0, 2.0, 0.05), 0.5)),
    ("logistic", Terms("factor", (60,), 12, (1.0, 1.5, 0.5), 0.5)),
    ("poisson", Terms("factor", (40,), 8, (1.0, 0.5), 0.9)),
    ("normal", Terms("factor", (12,), 9, (5.0, 4.0, 6.0), 0.9)),
    ("logistic", Terms("crossed", (30, 20), 600, (1.5, 0.02))),
    ("probit", Terms("crossed", (200, 15), 3000, (2.0, 1.0))),
    ("poisson", Terms("crossed", (120, 60), 400, (0.8, 0.5))),
    ("normal", Terms("slope, crossed", (70, 20), 840, (0.5, 0.5, 3.0))),
    ("logistic", Terms("nested", (12, 10), 4, (0.5, 2.0))),
    ("negative_binomial(5)", Terms("nested", (8, 6), 8, (1.0, 0.3))),
)


def made(family: str, own: Terms, seed: int) -> pd.DataFrame:
    """Return rows; x has values near 20, and its effects are those of x less 20 over 5."""
    rng = np.random.default_rng([57, seed])
    crossed = "crossed" in own.kind
    if crossed:
        codes = [rng.integers(0, G, own.rows) for G in own.levels]
    else:  # levels of the last factor, one after another
        last = np.repeat(np.arange(int(np.prod(own.levels))), own.rows)
        codes = [last] if len(own.levels) == 1 else [last // own.levels[1], last % own.levels[1]]
    n, q = len(codes[0]), len(own.sds) - len(own.levels) + 1
    white, z = rng.normal(size=n), rng.normal(size=n)
    level = rng.integers(0, q, n)
    effects = [(level == i).astype(float) for i in range(q)] if own.kind == "factor" else [np.ones(n), white, z][:q]
    correlation = np.full((q, q), own.rho) + (1.0 - own.rho) * np.eye(q)
    factor = np.linalg.cholesky(correlation) * np.array(own.sds[:q])[:, None]
    eta = own.intercept + 0.5 * white + 0.3 * z
    eta += ((rng.normal(size=(own.levels[0], q)) @ factor.T)[codes[0]] * np.stack(effects, axis=1)).sum(axis=1)
    if len(own.levels) > 1:
        second = own.levels[1] if crossed else own.levels[0] * own.levels[1]
        code = codes[1] if crossed else last
        eta += own.sds[-1] * rng.normal(size=second)[code]
    y = check_family("normal(1)" if family == "normal" else family).draw(eta, rng)
    frame = pd.DataFrame({"y": y, "x": MEAN_OF_X + 5.0 * white, "z": z})
    names = np.array(list("pqr"))
    frame["f"] = names[level]
    return frame.assign(**dict(zip("ab", codes, strict=False)))


@dataclass(frozen=True)
class MixedSet:
    """Rows and their model."""

    name: str
    formula: str
    family: str
    read: Callable[[Path], pd.DataFrame]  # given the folder of published rows
    source: str = ""  # of published rows, the name of the file

    def path(self, folder: Path) -> Path | None:
        """Return the file of published rows, or where it would be."""
        if not self.source:
            return None
        name = f"{self.source}.csv"
        return SHARED / name if (SHARED / name).is_file() else folder / name


def _made(k: int) -> MixedSet:
    family, own = MADE[k]
    columns = "x + z + f" if own.kind == "factor" else "x + z"
    levels = " x ".join(map(str, own.levels))
    name = f"{k + 1:02d} {family.partition('(')[0]}, {own.kind}, {levels}"
    return MixedSet(name, f"y ~ {columns} + {KINDS[own.kind][0]}", family, lambda _: made(family, own, k))


def _published(
    source: str, formula: str, family: str, change: Callable[[pd.DataFrame], pd.DataFrame] = lambda t: t
) -> MixedSet:
    def read(folder: Path) -> pd.DataFrame:
        path = own.path(folder)
        assert path is not None
        return change(pd.read_csv(path))

    terms = formula[min(formula.index(start) for start in ("(1 ", "(0 ") if start in formula) :]
    own = MixedSet(f"{source.partition('_')[2]} {terms}", formula, family, read, source)
    return own


def _aggression(t: pd.DataFrame) -> pd.DataFrame:
    return t[t["id"] % 3 == 0].assign(said=lambda own: (own["r2"] == "Y").astype(int))


def _epilepsy(t: pd.DataFrame) -> pd.DataFrame:
    return t.assign(visit=(t["period"] - 2.5) / 5.0)


def _ones(column: str, level: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda t: t.assign(**{column: (t[column] == level).astype(int)})


_severe = _ones("outcome", "moderate or severe")
_IMMUNE = "immun ~ kid2p + mom25p + ord + ethn + momEd + husEd + momWork + rural + pcInd81"

SETS: tuple[MixedSet, ...] = (
    *map(_made, range(len(MADE))),
    _published("lme4_cbpp", "cbind(incidence, size - incidence) ~ C(period) + (1 | herd)", "logistic"),
    _published("lme4_sleepstudy", "Reaction ~ Days + (1 + Days | Subject)", "normal"),
    _published("lme4_Pastes", "strength ~ 1 + (1 | batch / cask)", "normal"),
    _published("lme4_Penicillin", "diameter ~ 1 + (1 | plate) + (1 | sample)", "normal"),
    _published("lme4_Dyestuff", "Yield ~ 1 + (1 | Batch)", "normal"),
    _published("lme4_Dyestuff2", "Yield ~ 1 + (1 | Batch)", "normal"),
    _published("lme4_grouseticks", "TICKS ~ C(YEAR) + cHEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION)", "poisson"),
    _published(
        "lme4_VerbAgg", "said ~ Anger + Gender + btype + situ + mode + (1 | id) + (1 | item)", "logistic", _aggression
    ),
    _published("lme4_cake", "angle ~ recipe * C(temperature) + (1 | recipe:replicate)", "normal"),
    _published("nlme_Orthodont", "distance ~ age * Sex + (1 + age | Subject)", "normal"),
    _published("nlme_Oxboys", "height ~ age + I(age**2) + (1 + age | Subject)", "normal"),
    _published("nlme_Machines", "score ~ Machine + (0 + Machine | Worker)", "normal"),
    _published("nlme_Machines", "score ~ Machine + (1 | Worker / Machine)", "normal"),
    _published("nlme_Oats", "yield ~ nitro + (1 | Block / Variety)", "normal"),
    _published("nlme_Rail", "travel ~ 1 + (1 | Rail)", "normal"),
    _published("MASS_bacteria", "y ~ trt + I(week > 2) + (1 | ID)", "logistic", _ones("y", "y")),
    _published("MASS_epil", "y ~ lbase * trt + lage + visit + (1 | subject)", "poisson", _epilepsy),
    _published("MASS_epil", "y ~ lbase * trt + lage + visit + (1 + visit | subject)", "poisson", _epilepsy),
    _published("HSAUR3_toenail", "outcome ~ treatment * time + (1 | patientID)", "logistic", _severe),
    _published("HSAUR3_toenail", "outcome ~ treatment * time + (1 + time | patientID)", "logistic", _severe),
    _published("mlmRev_guImmun", f"{_IMMUNE} + (1 | mom) + (1 | comm)", "logistic", _ones("immun", "Y")),
    _published(
        "mlmRev_Contraception",
        "use ~ age + I(age**2) + urban + livch + (1 + urban | district)",
        "logistic",
        _ones("use", "Y"),
    ),
    _published("geepack_ohio", "resp ~ age * smoke + (1 | id)", "logistic"),
    _published(
        "glmmTMB_Owls",
        "SiblingNegotiation ~ FoodTreatment * SexParent + logBroodSize + (1 | Nest)",
        "negative_binomial(0.9)",
    ),
    _published("glmmTMB_Salamanders", "count ~ spp * mined + (1 | site)", "poisson"),
    _published(
        "lmerTest_carrots",
        "Preference ~ sens2 + C(Homesize) + (1 + sens2 | Consumer)",
        "normal",
        lambda t: t.dropna(subset=["Preference"]),
    ),
)
