"""Rows of ../shared/data for survey.R and survey_statsmodels.py: `python -m tests.published.survey_rows FOLDER`.

`CASES` are the surveys: a file, a formula, the family, and the columns of weights, exposure, clusters and strata.
`LONELY_CASES` have 15 strata, 13 of one cluster; in the domain of odd districts 8 have rows, 6 of these one cluster.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CASES: dict[str, dict[str, Any]] = {
    "contraception": {"formula": "use ~ age + urban + livch", "cluster": "district"},
    "contraception, strata": {"formula": "use ~ age + urban + livch", "cluster": "part", "strata": "urban"},
    "contraception, probit": {
        "formula": "use ~ age + urban + livch",
        "cluster": "district",
        "family": "probit",
    },
    "insteval": {"formula": "good ~ service + studage + lectage", "cluster": "d", "weights": "w"},
    "nmes1988": {
        "formula": "visits ~ health + chronic + age + gender + insurance",
        "cluster": "row",
        "strata": "region",
        "family": "poisson",
    },
    "ausprivauto0405": {
        "formula": "ClaimNb ~ Gender + VehValue",
        "cluster": "VehBody",
        "family": "poisson",
        "exposure": "Exposure",
    },
}
LONELY_CASES: dict[str, dict[str, Any]] = {
    f"contraception, {lonely}{', domain' if domain else ''}": {
        "formula": "use ~ age + urban + livch",
        "cluster": "part",
        "strata": "area",
        "lonely": lonely,
        "domain": domain,
    }
    for lonely in ("adjust", "average")
    for domain in (None, "odd")
}


def rows_of(name: str, path: Path) -> pd.DataFrame:
    """Return the rows of a case from its file."""
    rows = pd.read_parquet(path)
    if name.startswith("contraception"):
        rows["part"] = rows["district"].astype(str) + rows["urban"].astype(str)
        rows["area"] = rows["part"].where(rows["district"] <= 8, rows["urban"])
        rows["odd"] = rows["district"] % 2
    if name == "insteval":
        rows["w"] = 1.0 + 0.5 * (rows["s"] % 4)
    if name == "nmes1988":
        rows["row"] = np.arange(len(rows))
    return rows


if __name__ == "__main__":
    data = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    for case in (*CASES, *LONELY_CASES):
        file = f"{case.partition(',')[0]}.parquet"
        rows_of(case, data / file).to_csv(Path(sys.argv[1]) / f"{case}.csv", index=False)
