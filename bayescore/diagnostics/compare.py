"""Is a coreset posterior the reference posterior? Errors in words, numbers and pictures.

Every error comes with its Monte Carlo error, and a noise floor shows what two runs of the reference itself differ
by, so that "no difference" is told from "too few draws". Use it where a reference (a run on the full data, or on a
much larger coreset) can be afforded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayescore.compat import is_inference_data
from bayescore.data.matching import check_no_pseudo, check_same_design
from bayescore.diagnostics.errors import Moments, negative_log_likelihood
from bayescore.diagnostics.health import health
from bayescore.diagnostics.metrics import Row, measure, mmd_row, moment_errors, moment_row, noise_floor
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.report import as_fragment, as_text, plots, write_report
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.diagnostics.verdict import verdict
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_integer

NOISE_FLOOR = "noise floor"
REFERENCE = "reference"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ComparisonData):
    """Candidates compared with a reference, with their tables in `ComparisonData`; prints itself, draws and reports.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> reference = bc.sample(bc.all_rows(X, y, progressbar=False), random_seed=3, progressbar=False)
    >>> comparison = bc.compare({"calibrated": idata}, reference)
    >>> sorted(comparison.verdicts)
    ['calibrated']
    >>> comparison.plot_forest().get_xlabel() != ""
    True
    >>> comparison.to_html("comparison.html")  # doctest: +SKIP
    """

    def plot_forest(self) -> Axes:
        """Plot means and 94% equal-tailed intervals of each coordinate, the reference and candidates side by side."""
        return plots.forest(plt.figure(), self)

    def plot_marginals(self) -> NDArray[Any]:
        """Plot the marginal densities of the coordinates with the largest errors."""
        return plots.marginals(plt.figure(), self)

    def plot_mmd(self) -> Axes:
        """Plot the whitened MMD of each candidate above the noise floor, against coreset size where that varies."""
        return plots.mmd(plt.figure(), self)

    def to_html(self, path: str | Path, *, certificates: Mapping[str, CertificateData] | None = None) -> None:
        """Write the report to one HTML file, with what `certify` returned of candidates by name.

        Raises
        ------
        ValueError, TypeError
            If `certificates` has a name that no candidate has, before anything is written.
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.
        """
        write_report(self, path, certificates=certificates)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_fragment(self)


def compare(
    candidates: object, reference: object, *, test: WeightedData | None = None, max_draws: int = 4000
) -> Comparison:
    """Compare posteriors with a reference posterior of the same coefficients; effects of groups are not compared.

    Parameters
    ----------
    candidates : InferenceData, Fit, or dict of them
        Posteriors to judge, by name. Features are matched with the reference's by name, whatever their order.
    reference : InferenceData or Fit
        Posterior taken for the truth.
    test : WeightedData, optional
        Rows of the design matrix, columns in the reference's order, for the negative log-likelihood, and for a
        picture of the model's fit in the report; each posterior then needs the attribute `family`.
    max_draws : int
        Draws used for the MMD, whose cost is their square times D; thinned evenly.

    Returns
    -------
    Comparison
        Tables, verdicts, plots and the report.

    Raises
    ------
    TypeError
        If an argument is not an InferenceData, or a name not a string.
    ValueError
        If the features differ, a posterior cannot be used, or a name is taken; if `test` has pseudo-rows, or is given
        of posteriors with effects of groups.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> reference = bc.sample(bc.all_rows(X, y, progressbar=False), random_seed=3, progressbar=False)
    >>> comparison = bc.compare({"calibrated": idata}, reference)
    >>> bool(comparison.metrics.loc["calibrated", "mean_error_sd"] < 0.3)
    True
    """
    max_draws = check_integer(max_draws, "max_draws", low=100)
    truth = _check_reference(read_posterior(_draws(reference), REFERENCE))
    others = _check_candidates(candidates, truth)
    if test is not None:
        _check_test(test, [truth, *others.values()])
    base = measure(truth, max_draws)
    rows: dict[str, Row] = {}
    verdicts, tables = {}, []
    for name, candidate in others.items():
        difference, mcse, noisier = moment_errors(candidate, base)
        rows[name] = {**mmd_row(candidate, base, max_draws), **moment_row(difference, mcse)}
        verdicts[name] = verdict(difference, mcse, truth.features, noisier)
        tables.append(_coordinates(name, candidate, truth, difference, mcse))
    rows[NOISE_FLOOR] = noise_floor(base)
    if test is not None:
        for name, posterior in [*others.items(), (NOISE_FLOOR, truth)]:
            rows[name]["nll"] = negative_log_likelihood(posterior.draws, test, posterior.family)
    records = {
        name: {column: pair[i] for metric, pair in row.items() for i, column in enumerate((metric, f"{metric}_mcse"))}
        for name, row in rows.items()
    }
    return Comparison(
        pd.DataFrame.from_dict(records, orient="index").rename_axis("candidate"),
        pd.concat(tables, ignore_index=True),
        verdicts,
        {name: health(posterior) for name, posterior in [(REFERENCE, truth), *others.items()]},
        others,
        truth,
        max_draws,
        None if test is None else check_model(truth, test),
    )


def _draws(given: object) -> object:
    """Return the draws of a fit, of a room above this one, or what was given."""
    return getattr(given, "idata", given) if hasattr(given, "coreset") else given


def _check_reference(reference: Posterior) -> Posterior:
    fixed = np.ptp(reference.draws, axis=(0, 1)) == 0.0
    if fixed.any():
        raise DataError(
            f"reference: {reference.features[int(fixed.argmax())]!r} has the same value in all draws, so errors in its "
            "sds mean nothing; sample the reference again"
        )
    return reference


def _check_candidates(candidates: object, reference: Posterior) -> dict[str, Posterior]:
    if is_inference_data(_draws(candidates)):
        candidates = {"candidate": candidates}
    if not isinstance(candidates, Mapping):
        raise TypeError(
            f"candidates is of type {type(candidates).__name__}; give InferenceData or a dict of them by name"
        )
    if not candidates:
        raise ValueError("candidates is empty; give at least one posterior")
    for name in candidates:
        if not isinstance(name, str):
            raise TypeError(f"candidates has the name {name!r}; names must be strings")
        if name in (NOISE_FLOOR, REFERENCE):
            raise ValueError(f"candidates has the name {name!r}, which the tables use; choose another")
    read = {
        name: read_posterior(_draws(idata), f"candidates[{name!r}]").aligned(reference.features)
        for name, idata in candidates.items()
    }
    for own in read.values():
        if None not in (own.design, reference.design) and own.design != reference.design:
            raise DataError(
                f"{own.name}: its design matrix is not that of the reference (intercept, centers or scales differ), so "
                "the coefficients mean different things; build both with the same intercept and standardize"
            )
    return read


def _check_test(test: object, posteriors: list[Posterior]) -> None:
    if not isinstance(test, WeightedData):
        raise TypeError(f"test is of type {type(test).__name__}; give WeightedData, such as bayescore.all_rows(X, y)")
    check_same_design(test, posteriors[0].features, posteriors[0].design, "test")
    check_no_pseudo(test, "test")
    for posterior in posteriors:
        _ = posterior.family, posterior.predictor(1).unknown(test)  # which it may not know


def _coordinates(name: str, own: Posterior, reference: Posterior, difference: Moments, mcse: Moments) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "candidate": name,
            "feature": list(reference.features),
            "mean": own.flat.mean(axis=0),
            "sd": own.flat.std(axis=0, ddof=1),
            "reference_mean": reference.flat.mean(axis=0),
            "reference_sd": reference.flat.std(axis=0, ddof=1),
            "mean_error_sd": difference.mean,
            "mean_error_sd_mcse": mcse.mean,
            "sd_error": difference.sd,
            "sd_error_mcse": mcse.sd,
        }
    )
