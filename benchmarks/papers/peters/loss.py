"""How does the probit loss of coresets fall with their size, in the experiments that Peters (2021) announces?

Loss ratio: the full data's probit loss at the coreset's mode over that at the full data's own; quartiles over
`repetitions` seeds. "published" are the medians of 51 runs in the source's repository, of other rows and encodings (all
of CovType, another preparation of KDD). Intercept and standardised columns. w8a stands in for Webspam, with its 127
most frequent keywords, as many columns as Webspam has, and in random order: its file has all positives first, which
on-line scores favour. All three sets are quasi-separated and have no maximum likelihood estimate: the modes here are
those under N(0, 100^2) priors. 51 repetitions, as in the repository (`--trials` takes others).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import check_family
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.problems import load, readable
from benchmarks.tables import known_rows, publish

COVTYPE, KDD, WEB = "covtype_ramp16pct", "kddcup99_10pct categories", "w8a_train"
WEBSPAM_COLUMNS = 127
SIZES = {COVTYPE: (500, 2000, 5000, 15000), KDD: (2000, 5000, 10000), WEB: (2000, 5000, 15000)}
# (leverage, uniform) of the source's repository, by data and size
PUBLISHED = {
    COVTYPE: {500: (3.32, 1.85), 2000: (1.30, 1.14), 5000: (1.024, 1.035), 15000: (1.004, 1.006)},
    KDD: {2000: (1.57, 3.6e6), 10000: (1.29, 1433.0)},
    WEB: {},
}
METHODS = {
    "uniform": bc.methods.Uniform(),
    "leverage": bc.methods.Leverage(),
    "sketch": bc.methods.Leverage(scores="sketch"),
    "on-line": bc.methods.Online(),
}
TRIALS = 51


def full(name: str, most_rows: int | None = None) -> bc.Coreset:
    """Return all rows of a problem with an intercept and standardised columns."""
    frame, y = load(name)
    if name == WEB:
        frame = frame[frame.sum().nlargest(WEBSPAM_COLUMNS).index]
        order = np.random.default_rng(0).permutation(len(frame))
        frame, y = frame.iloc[order], y[order]
    if most_rows is not None:
        rows = np.random.default_rng(0).permutation(len(frame))[:most_rows]
        frame, y = frame.iloc[rows], y[rows]
        frame = frame.loc[:, frame.nunique() > 1]
    return bc.all_rows(frame, y, family="probit", intercept=True, standardize=True, progressbar=False)


def loss_rows(name: str, trials: int, sizes: tuple[int, ...], most_rows: int | None) -> Iterator[dict[str, Any]]:
    """Yield the loss ratios of one data set, a row for each size and method."""
    data, probit = full(name, most_rows), check_family("probit")

    def fitted_loss(fit_to: WeightedData) -> float:
        """Return the full data's loss at the mode of `fit_to`."""
        return float(-probit.log_p(data.Z @ bc.find_map(fit_to, "probit", bc.priors.Normal(0, 100)).beta, 1).sum())

    best, dataset = fitted_loss(data), Dataset(as_source(data))
    print(f"{name}: N = {len(data)}, D = {data.n_features}, loss {best:.6g}", flush=True)
    for size in sizes:
        published = dict(zip(("leverage", "uniform"), PUBLISHED[name].get(size, ()), strict=False))
        for name_of, method in METHODS.items():
            # not by build_coreset, which asks each time whether the labels overlap: they do not
            cores = [method.build(dataset, size, seed, probit).rows for seed in range(trials)]
            ratios = np.array([fitted_loss(core) for core in cores]) / best
            lower, median, upper = np.quantile(ratios, [0.25, 0.5, 0.75])
            yield {
                "data": name,
                "N": len(data),
                "D": data.n_features,
                "size": size,
                "method": name_of,
                "repetitions": trials,
                "positive rows, median": int(np.median([(core.y > 0).sum() for core in cores])),
                "lower quartile": lower,
                "median": median,
                "upper quartile": upper,
                "published": published.get(name_of, np.nan),
            }


@command("peters_loss", evidence=(KDD,), sets=SIZES)
def main(trials: int = TRIALS, only: Sequence[str] = tuple(SIZES), *, quick: bool = False) -> None:
    """Write the table; of the sets in `only` anew."""
    runs, n_sizes, most_rows = (3, 2, 20_000) if quick else (trials, None, None)
    rows = [row for row in known_rows("peters_loss") if row["data"] not in only]
    for name in readable(only):
        rows += loss_rows(name, runs, SIZES[name][:n_sizes], most_rows)
    rows.sort(key=lambda row: list(SIZES).index(row["data"]))
    if rows:
        publish("peters_loss", rows)
