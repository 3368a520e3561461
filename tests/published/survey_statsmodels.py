"""Cluster covariances of statsmodels 0.15.0 for tests/fitting/test_cluster_robust.py, of cases without strata.

pip install --target LIBRARY statsmodels, python -m tests.published.survey_rows FOLDER, and
PYTHONPATH=LIBRARY python tests/published/survey_statsmodels.py FOLDER > tests/published/survey_statsmodels.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

rows = {path.stem: pd.read_csv(path) for path in Path(sys.argv[1]).glob("*.csv")}
contraception, claims = rows["contraception"], rows["ausprivauto0405"]
use = "use ~ age + urban + livch"
by_district = {"cov_type": "cluster", "cov_kwds": {"groups": contraception["district"]}}
found = {
    "contraception": smf.glm(use, contraception, family=sm.families.Binomial()).fit(**by_district),
    "contraception, probit": smf.probit(use, contraception).fit(disp=0, **by_district),
    "insteval": smf.gee(
        "good ~ service + studage + lectage",
        "d",
        rows["insteval"],
        weights=rows["insteval"]["w"],
        family=sm.families.Binomial(),
        cov_struct=sm.cov_struct.Independence(),
    ).fit(),
    "ausprivauto0405": smf.glm(
        "ClaimNb ~ Gender + VehValue",
        claims,
        family=sm.families.Poisson(),
        exposure=np.asarray(claims["Exposure"]),
    ).fit(cov_type="cluster", cov_kwds={"groups": claims["VehBody"].astype("category").cat.codes}),
}
told = {
    case: {"names": list(fit.params.index), "mean": list(fit.params), "sd": list(fit.bse)}
    for case, fit in found.items()
}
print(json.dumps(told, indent=1))
