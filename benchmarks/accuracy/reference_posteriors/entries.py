"""Which reference posteriors could posteriordb take? Entries with data, models, draws and what these meet.

Five published sets under both links, each with an intercept, standardised columns and priors Normal(0, 4), go to
``.references/posteriordb``, in the layout of posteriordb's doc/DATABASE_CONTENT.md. Draws are those of
`reference_posteriors`. They come of split HMC, for which posteriordb's definition asks for an argument: `comments` has
it. It has no E-FMI; that check is null. What a person must say is empty: `added_by`, keywords, references to cite.

`check` reads the folder as posteriordb's Python package does, and compares names, sizes and draws with each other; with
``pip install posteriordb`` the package itself reads all entries, too.
"""

import json
import shutil
import zipfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bayescore.numerics.chains import ess, rhat
from benchmarks.accuracy.full_posteriors import FOLDER
from benchmarks.accuracy.reference_posteriors.data import DATA
from benchmarks.accuracy.reference_posteriors.make import CHAINS, DRAWS, LINKS, MAX_LAG_1, MAX_RHAT, lag_1, reference
from benchmarks.commands import command

ROOT = FOLDER / "posteriordb" / "posterior_database"
TITLES = {
    "vaso": "Vasoconstriction of the skin and breathing (Finney 1947)",
    "beetles": "Mortality of beetles by dose (Bliss 1935)",
    "contraception": "Use of contraception in Bangladesh by age, children and place (R package mlmRev)",
    "german_credit": "German credit, numeric attributes (UCI)",
    "chemreact": "ChemReact, ds1.10: reactivity and ten principal components (komarix.org)",
}
DENSITY = {
    "logistic": "dot_product(weights, y .* log_inv_logit(eta) + (1 - y) .* log1m_inv_logit(eta))",
    "probit": "dot_product(weights, y .* std_normal_lcdf_of(eta) + (1 - y) .* std_normal_lcdf_of(-eta))",
}
FUNCTIONS = """functions {
  // log Phi of each element; std_normal_lcdf adds them up
  vector std_normal_lcdf_of(vector eta) {
    vector[num_elements(eta)] found;
    for (n in 1:num_elements(eta)) found[n] = std_normal_lcdf(eta[n] | );
    return found;
  }
}
"""
STAN = """data {
  int<lower=1> N;
  int<lower=1> D;
  matrix[N, D] X; // a column of ones and standardised columns
  vector<lower=0, upper=1>[N] y;
  vector<lower=0>[N] weights; // copies of each row
}
parameters {
  vector[D] beta;
}
model {
  vector[N] eta = X * beta;
  beta ~ normal(0, 4);
  target += DENSITY;
}
"""
COMMENTS = (
    "Split Hamiltonian Monte Carlo with a density and gradient of its own, whitened by the curvature at the mode "
    "(Shahbaba, Lan, Johnson and Neal 2014): another sampler and another implementation than Stan's, in 10 chains, "
    "thinned until the definition is met. It makes no transitions that diverge, and reports no E-FMI."
)


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _zipped(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path.with_name(f"{path.name}.zip"), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(path.name, json.dumps(content))


def read(path: Path) -> Any:
    """Return the content of a zipped file of JSON."""
    with zipfile.ZipFile(path.with_name(f"{path.name}.zip")) as file:
        return json.loads(file.read(path.name))


def write(data: str, family: str, day: str) -> str:
    """Write an entry and return the name of its posterior."""
    told = {"added_by": "", "added_date": day, "keywords": [], "references": None}
    rows, model, source = DATA[data].rows(family), f"{family}_regression_normal4", f"{data}_standardised"
    content = {"N": len(rows), "D": rows.n_features, "X": rows.X.tolist()}
    content |= {"y": (rows.y > 0).astype(float).tolist(), "weights": rows.weights.tolist()}
    _zipped(ROOT / "data" / "data" / f"{source}.json", content)
    info = {"name": source, "title": TITLES[data], "data_file": f"data/data/{source}.json", **told}
    _write(ROOT / "data" / "info" / f"{source}.info.json", info)
    stan = (FUNCTIONS if family == "probit" else "") + STAN.replace("DENSITY", DENSITY[family])
    _write(ROOT / "models" / "stan" / f"{model}.stan", stan)
    code = {"stan": {"model_code": f"models/stan/{model}.stan", "stan_version": ">=2.26.0"}}
    title = f"{family.capitalize()} regression of weighted rows with priors Normal(0, 4)"
    info = {"name": model, "title": title, "model_implementations": code, **told}
    _write(ROOT / "models" / "info" / f"{model}.info.json", info)
    name = f"{source}-{model}"
    info = {"name": name, "model_name": model, "data_name": source, "reference_posterior_name": name, **told}
    _write(ROOT / "posteriors" / f"{name}.json", {**info, "dimensions": {"beta": rows.n_features}})
    posterior = reference(data, family).posterior
    draws = posterior["beta"].values
    names = [f"beta[{d + 1}]" for d in range(draws.shape[2])]
    chains = [dict(zip(names, chain.T.tolist(), strict=True)) for chain in draws]
    _zipped(ROOT / "reference_posteriors" / "draws" / "draws" / f"{name}.json", chains)
    _write(
        ROOT / "reference_posteriors" / "draws" / "info" / f"{name}.info.json", _diagnosed(name, draws, posterior, told)
    )
    return name


def _diagnosed(name: str, draws: np.ndarray, posterior: Any, told: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of reference draws."""
    thin = int(posterior.attrs["thin"])
    mixed, lags = rhat(draws), lag_1(draws)
    return {
        "name": name,
        "inference": {
            "method": "split_hmc",
            "method_arguments": {"chains": CHAINS, "draws": DRAWS, "thin": thin, "seed": 0},
        },
        "diagnostics": {
            "diagnostic_information": {"names": [f"beta[{d + 1}]" for d in range(draws.shape[2])]},
            "ndraws": draws.shape[0] * draws.shape[1],
            "nchains": draws.shape[0],
            "effective_sample_size_bulk": ess(draws, "bulk").tolist(),
            "effective_sample_size_tail": ess(draws, "tail").tolist(),
            "r_hat": mixed.tolist(),
            "divergent_transitions": None,
            "expected_fraction_of_missing_information": None,
            "mean_lag1_ac": lags.tolist(),
        },
        "checks_made": {
            "ndraws_is_10k": bool(draws.shape[0] * draws.shape[1] == CHAINS * DRAWS),
            "nchains_is_gte_4": bool(draws.shape[0] >= 4),
            "r_hat_below_1_01": bool(mixed.max() < MAX_RHAT),
            "efmi_above_0_2": None,
            "abs_mean_lag1_ac_below_0_05": bool(np.abs(lags).max() < MAX_LAG_1),
        },
        "comments": COMMENTS,
        "added_by": told["added_by"],
        "added_date": told["added_date"],
        "versions": {"bayescore": version("bayescore"), "numpy": version("numpy")},
    }


def check(name: str) -> None:
    """Raise `AssertionError` unless an entry's files are there, name each other, and have draws of the sizes told."""
    entry = json.loads((ROOT / "posteriors" / f"{name}.json").read_text())
    source = json.loads((ROOT / "data" / "info" / f"{entry['data_name']}.info.json").read_text())
    model = json.loads((ROOT / "models" / "info" / f"{entry['model_name']}.info.json").read_text())
    about = json.loads((ROOT / "reference_posteriors" / "draws" / "info" / f"{name}.info.json").read_text())
    for part, keys in (
        (entry, ("added_by", "added_date")),
        (source, ("title", "added_by", "added_date")),
        (model, ("title", "added_by", "added_date")),
        (about, ("inference", "diagnostics", "checks_made", "comments", "added_by", "added_date", "versions")),
    ):
        assert set(keys) <= set(part), (name, keys)
    data = read(ROOT / source["data_file"])
    assert np.shape(data["X"]) == (data["N"], data["D"]), name
    assert len(data["y"]) == len(data["weights"]) == data["N"], name
    assert (ROOT / model["model_implementations"]["stan"]["model_code"]).is_file(), name
    draws = read(ROOT / "reference_posteriors" / "draws" / "draws" / f"{name}.json")
    assert [sorted(chain) for chain in draws] == [sorted(f"beta[{d + 1}]" for d in range(data["D"]))] * CHAINS, name
    assert {len(values) for chain in draws for values in chain.values()} == {DRAWS}, name
    assert all(value is not False for value in about["checks_made"].values()), name


@command("posteriordb_entries")
def main() -> None:
    if ROOT.exists():
        shutil.rmtree(ROOT)
    names = [write(data, family, date.today().isoformat()) for data in TITLES for family in LINKS]
    for name in names:
        check(name)
    try:
        from posteriordb import PosteriorDatabase
    except ImportError:
        print("not read by posteriordb's own package: pip install posteriordb")
    else:
        for posterior in PosteriorDatabase(str(ROOT)).posteriors():
            assert posterior.reference_draws() == read(
                ROOT / "reference_posteriors" / "draws" / "draws" / f"{posterior.name}.json"
            )
            assert posterior.data.values()["D"] == posterior.information["dimensions"]["beta"]
            assert "beta ~ normal(0, 4)" in posterior.model.code("stan")
        print("read by posteriordb's own package")
    print(f"{len(names)} entries in {ROOT}")
