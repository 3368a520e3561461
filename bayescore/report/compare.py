"""Is a coreset posterior the reference posterior? Errors in words, numbers and pictures.

Every error comes with its Monte Carlo error, and a noise floor shows what two runs of the reference itself differ
by, so that "no difference" is told from "too few draws". Use it where a reference (a run on the full data, or on a
much larger coreset) can be afforded.

The metrics of a candidate against a reference, and the reference against itself.

A row of metrics maps each name to its value and Monte Carlo standard error. An error over coordinates is the largest in
absolute value, with the standard error at that place.

From errors and their Monte Carlo errors to one of four words and a sentence.

A difference is *significant* when it exceeds q standard errors, where q is the two-sided normal Sidak quantile (1967)
at 1% for all 2 D + D (D - 1) / 2 means, sds and correlations together: among exact candidates, about one in a hundred
shows any. In this order:

====================  ==================================================================================
differs               some error is significant and above 0.1 (reference sds, relative sd, correlation)
too few draws         the Monte Carlo error of some mean or sd is 0.1 or more
indistinguishable     no error is significant
close                 every mean is within 0.1 sd and every sd within 10%
too few draws         otherwise: some errors are real, and an error above 0.1 may be chance
====================  ==================================================================================

Where the Monte Carlo error of some mean or sd is 0.1 or more, effective sample sizes are about 100 or less and
standard errors poor themselves. An error then counts as significant only against the largest of its kind, and
correlations are not judged.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayescore.compat import is_inference_data
from bayescore.data.coreset import check_no_pseudo, check_same_design
from bayescore.diagnostics.mmd import Kernel, batch_edges, block_sums, mmd_of_sums, reference_scale, root_of_sums
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.results import CertificateData, ComparisonData, Level, Verdict, health
from bayescore.families import Family
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.numerics.chains import mcse_mean, split_single_chain
from bayescore.numerics.moments import Moments, errors, errors_mcse, moments, moments_mcse, sidak_quantile
from bayescore.report import pictures
from bayescore.report.pages import as_fragment, as_text, write_report
from bayescore.samplers.posterior import Posterior, read_posterior
from bayescore.samplers.summaries import with_scales
from bayescore.text import with_error
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer

Row = dict[str, tuple[float, float]]


MAX_SPLITS = 10


_KERNEL = Kernel()


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference with all that its comparisons share; mappings have the name of an MMD as key."""

    posterior: Posterior
    moments: Moments
    mcse: Moments
    maps: Mapping[str, Callable[[FloatArray], FloatArray]]  # of draws to where the MMD is computed: whitened, or as is
    edges: IntArray  # of the batches of the thinned draws
    rows: Mapping[str, FloatArray]  # the mapped thinned draws
    sums: Mapping[str, FloatArray]  # their block sums


def measure(reference: Posterior, max_draws: int) -> Reference:
    """Return the reference with its moments and the kernel sums of at most `max_draws` of its draws."""
    thinned = reference.thinned(max_draws)
    edges = batch_edges(*thinned.shape[:2])
    maps: dict[str, Callable[[FloatArray], FloatArray]] = {
        "mmd_whitened": reference_scale(reference.flat),
        "mmd": lambda draws: draws,
    }
    rows = {name: change(thinned.reshape(-1, thinned.shape[2])) for name, change in maps.items()}
    sums = {name: block_sums(x, x, edges, edges, _KERNEL) for name, x in rows.items()}
    return Reference(reference, moments(reference.flat), moments_mcse(reference.draws), maps, edges, rows, sums)


def mmd_row(candidate: Posterior, reference: Reference, max_draws: int) -> Row:
    """Return both MMDs, from at most `max_draws` draws, and their jackknife errors."""
    thinned = candidate.thinned(max_draws)
    edges = batch_edges(*thinned.shape[:2])
    row = {}
    for name, change in reference.maps.items():
        x = change(thinned.reshape(-1, thinned.shape[2]))
        row[name] = mmd_of_sums(
            block_sums(x, x, edges, edges, _KERNEL),
            reference.sums[name],
            block_sums(x, reference.rows[name], edges, reference.edges, _KERNEL),
            np.diff(edges),
            np.diff(reference.edges),
        )
    return row


def moment_errors(candidate: Posterior, reference: Reference) -> tuple[Moments, Moments, str]:
    """Return the errors of a candidate's moments, their standard errors, and the side with the larger share."""
    estimate, own_mcse = moments(candidate.flat), moments_mcse(candidate.draws)
    noisier = "candidate" if (own_mcse.mean > reference.mcse.mean).mean() > 0.5 else "reference"
    difference = errors(estimate, reference.moments, scale=reference.moments.sd)
    return difference, errors_mcse(estimate, own_mcse, reference.moments, reference.mcse), noisier


def moment_row(difference: Moments, mcse: Moments) -> Row:
    """Return the largest error of each kind with its standard error."""
    spread, row = _kinds(mcse), {}
    for name, error in _kinds(difference).items():
        place = np.unravel_index(np.abs(error).argmax(), error.shape)
        row[name] = float(np.abs(error[place])), float(spread[name][place])
    return row


def noise_floor(reference: Reference) -> Row:
    """Return the metrics that two independent runs as long as the reference would show.

    The chains (or the halves of a single one) are split in two in every way, at most in 10 random ways. The metrics of
    parts of n_1 and n_2 out of n draws are averaged and multiplied by sqrt(2 n_1 n_2) / n: two runs of n draws differ
    by that much less than two halves. Their standard error is that over the splits, NaN for a single split. The very
    draws define the whitening, so the whitened MMD's floor is a few per cent low unless the effective sample size is
    large against D.
    """
    draws, batches = split_single_chain(reference.posterior.draws), len(reference.edges) - 1
    sizes = np.diff(reference.edges)
    values = []
    for first in _splits(len(draws)):
        mine = np.zeros(len(draws), dtype=np.bool_)
        mine[list(first)] = True
        halves = [moments(draws[side].reshape(-1, draws.shape[2])) for side in (mine, ~mine)]
        a = mine[np.arange(batches) * len(draws) // batches]
        b = ~a
        row = {
            name: float(
                root_of_sums(s[a][:, a].sum(), s[b][:, b].sum(), s[a][:, b].sum(), sizes[a].sum(), sizes[b].sum())
            )
            for name, s in reference.sums.items()
        }
        difference = errors(*halves, scale=reference.moments.sd)
        row.update({name: float(np.abs(error).max()) for name, error in _kinds(difference).items()})
        scale = math.sqrt(2.0 * mine.sum() * (~mine).sum()) / len(mine)
        values.append({name: scale * value for name, value in row.items()})
    return {name: _mean_over_splits(np.array([row[name] for row in values])) for name in values[0]}


def _kinds(of: Moments) -> dict[str, FloatArray]:
    return {"mean_error_sd": of.mean, "sd_error": of.sd, "correlation_error": of.correlation, "tail_error_sd": of.tail}


def _mean_over_splits(values: FloatArray) -> tuple[float, float]:
    spread = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return float(values.mean()), spread


def _splits(n_chains: int) -> list[tuple[int, ...]]:
    half = n_chains // 2
    # a half and its complement are one split: with an even number of chains, chain 0 stands in the first half
    twice = 2 if n_chains % 2 == 0 else 1
    if math.comb(n_chains, half) // twice > MAX_SPLITS:
        rng = np.random.default_rng(0)
        return [tuple(rng.permutation(n_chains)[:half].tolist()) for _ in range(MAX_SPLITS)]
    every = list(itertools.combinations(range(n_chains), half))
    return every[: len(every) // twice]


@dataclass(frozen=True, eq=False)
class _ErrorKind:
    """The errors of one kind, flat, with their names and how many standard errors are significant."""

    error: FloatArray
    mcse: FloatArray
    names: list[str]
    unit: str
    quantile: float

    def significant(self, poor: bool) -> NDArray[np.bool_]:
        mcse = self.mcse.max(initial=0.0) if poor else self.mcse
        return np.asarray(np.abs(self.error) > self.quantile * mcse)

    def phrase(self, i: int) -> str:
        factor = 100.0 if self.unit == "%" else 1.0
        value, error = with_error(factor * self.error[i], factor * self.mcse[i], signed=True)
        spread = f" ± {error}" if error else ""
        return f"{value}{spread}{self.unit}, in the {self.names[i]}"


_LARGER = "Use method='calibrated', or a larger coreset if it was."
_LOWERS = "; a larger coreset lowers it"


def verdict(errors: Moments, mcse: Moments, features: tuple[str, ...], noisier: str) -> Verdict:
    """Judge a candidate by its errors against the reference and their standard errors: see the table in this module.

    `noisier` says which side has the larger Monte Carlo error, for the remedy.
    """
    families = _families(errors, mcse, features)
    moving = families[:2]
    noisy = max(moving, key=lambda f: f.mcse.max())
    hidden = not noisy.mcse.max() < NEGLIGIBLE_ERROR
    judged = moving if hidden else families
    off = [np.where(f.significant(hidden), np.abs(f.error), 0.0) for f in judged]
    if max(values.max(initial=0.0) for values in off) > NEGLIGIBLE_ERROR:
        family, values = max(zip(judged, off, strict=True), key=lambda pair: pair[1].max(initial=0.0))
        return Verdict(
            Level.DIFFERS,
            f"The largest error is {family.phrase(int(values.argmax()))}: above {NEGLIGIBLE_ERROR:g} and more than "
            f"Monte Carlo error explains. {_LARGER}",
        )
    if hidden:
        i = int(noisy.mcse.argmax())
        return Verdict(
            Level.TOO_FEW_DRAWS,
            f"The Monte Carlo error of the {noisy.names[i]} is {noisy.mcse[i]:.2g} sd, too large to tell; it comes "
            f"mostly from the {noisier}. Run that about {_factor(noisy.mcse[i])} times as long.",
        )
    worst = max(moving, key=lambda f: np.abs(f.error).max())
    i = int(np.abs(worst.error).argmax())
    if not any(f.significant(hidden).any() for f in families):
        seen = families[0].quantile * families[0].mcse.max()
        return Verdict(
            Level.INDISTINGUISHABLE,
            "No mean, sd or correlation is off by more than Monte Carlo error explains. The largest error is "
            f"{worst.phrase(i)}; an error of {seen:.2g} sd in any mean would have shown.",
        )
    if abs(worst.error[i]) <= NEGLIGIBLE_ERROR:
        return Verdict(
            Level.CLOSE,
            f"Small but real differences: every mean is within {NEGLIGIBLE_ERROR:g} sd and every sd "
            f"within {NEGLIGIBLE_ERROR:.0%}. "
            f"The largest error is {worst.phrase(i)}{_LOWERS}.",
        )
    return Verdict(
        Level.TOO_FEW_DRAWS,
        f"Some differences are real, but the largest, {worst.phrase(i)}, may be chance; Monte Carlo error comes "
        f"mostly from the {noisier}. Run that about {_factor(worst.mcse[i])} times as long.",
    )


def _families(errors: Moments, mcse: Moments, features: tuple[str, ...]) -> list[_ErrorKind]:
    upper = np.triu_indices(len(features), 1)
    quantile = sidak_quantile(2 * len(features) + len(upper[0]))
    pairs = [f"correlation of {features[i]!r} and {features[j]!r}" for i, j in zip(*upper, strict=True)]
    return [
        _ErrorKind(errors.mean, mcse.mean, [f"mean of {name!r}" for name in features], " sd", quantile),
        _ErrorKind(errors.sd, mcse.sd, [f"sd of {name!r}" for name in features], "%", quantile),
        _ErrorKind(errors.correlation[upper], mcse.correlation[upper], pairs, "", quantile),
    ]


def _factor(mcse: float) -> int:
    return max(2, int(np.ceil((mcse / (NEGLIGIBLE_ERROR / 2.0)) ** 2)))


_BLOCK = 2**22


def negative_log_likelihood(draws: FloatArray, test: WeightedData, family: Family) -> tuple[float, float]:
    """Return -sum_i w_i log(mean_s p(y_i | x_i, beta_s)) / sum_i w_i of test rows, and its Monte Carlo standard error.

    The draws beta_s have the shape (chain, draw, D). The error is that of the mean over s of
    sum_i w_i p_i(beta_s) / E[p_i], the first-order influence of a draw.
    """
    flat = draws.reshape(-1, draws.shape[2])
    share = test.weights / test.weights.sum()
    total, influence = 0.0, np.zeros(len(flat))
    step = max(_BLOCK // len(flat), 1)
    for start in range(0, len(test), step):
        rows = slice(start, start + step)
        part = test.take(rows)
        log_p = family.log_p(part.with_offset(part.X @ flat.T), part.y[:, None])
        top = log_p.max(axis=1, keepdims=True)
        relative = np.exp(log_p - top)
        mean = relative.mean(axis=1, keepdims=True)
        total -= float(share[rows] @ (top + np.log(mean))[:, 0])
        influence += share[rows] @ (relative / mean)
    return total, float(mcse_mean(influence.reshape(*draws.shape[:2], 1))[0])


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
    >>> comparison = bc.compare_posteriors({"calibrated": idata}, reference)
    >>> sorted(comparison.verdicts)
    ['calibrated']
    >>> comparison.plot_forest().get_xlabel() != ""
    True
    >>> comparison.to_html("comparison.html")  # doctest: +SKIP
    """

    def plot_forest(self) -> Axes:
        """Plot means and 95% equal-tailed intervals of each coordinate, the reference and candidates side by side."""
        return pictures.forest(plt.figure(), self)

    def plot_marginals(self) -> NDArray[Any]:
        """Plot the marginal densities of the coordinates with the largest errors."""
        return pictures.marginals(plt.figure(), self)

    def plot_mmd(self) -> Axes:
        """Plot the whitened MMD of each candidate above the noise floor, against coreset size where that varies."""
        return pictures.mmd(plt.figure(), self)

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


def compare_posteriors(
    candidates: object, reference: object, *, test: WeightedData | None = None, max_draws: int = 4000
) -> Comparison:
    """Compare posteriors with a reference posterior of the same model: coefficients, sds and correlations of effects.

    Sds of groups' effects are compared by their logarithms; the effects of single groups are not compared. Where priors
    differ, the verdict says so first.

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
    >>> comparison = bc.compare_posteriors({"calibrated": idata}, reference)
    >>> bool(comparison.metrics.loc["calibrated", "mean_error_sd"] < 0.3)
    True
    """
    max_draws = check_integer(max_draws, "max_draws", low=100)
    truth = _check_reference(read_posterior(_draws(reference), REFERENCE))
    others = _check_candidates(candidates, truth)
    if test is not None:
        _check_test(test, [truth, *others.values()])
    tested, shown = {**others, NOISE_FLOOR: truth}, truth
    more = truth.terms or truth.size is not None
    if more and all(one.terms == truth.terms for one in others.values()):
        groups = () if truth.design is None else truth.design.groups
        judged = {name: with_scales(one, groups) for name, one in {**others, REFERENCE: truth}.items()}
        if len({one.features for one in judged.values()}) == 1:  # whose sds of effects are known
            truth = _check_reference(judged.pop(REFERENCE))
            others = judged
    base = measure(truth, max_draws)
    rows: dict[str, Row] = {}
    verdicts, tables = {}, []
    for name, candidate in others.items():
        difference, mcse, noisier = moment_errors(candidate, base)
        rows[name] = {**mmd_row(candidate, base, max_draws), **moment_row(difference, mcse)}
        result = verdict(difference, mcse, truth.features, noisier)
        verdicts[name] = _with_priors(result, tested[name], shown)
        tables.append(_coordinates(name, candidate, truth, difference, mcse))
    rows[NOISE_FLOOR] = noise_floor(base)
    if test is not None:
        for name, posterior in tested.items():
            rows[name]["nll"] = negative_log_likelihood(posterior.draws, test, posterior.family_at_draws)
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
        None if test is None else check_model(shown, test),
    )


def _with_priors(result: Verdict, posterior: Posterior, reference: Posterior) -> Verdict:
    """Return a verdict that first names priors that differ, and then what of groups is not compared."""
    text = result.text
    what = {"prior": "priors", "group_prior": "priors of effects' sds", "sd_prior": "priors of the noise's sd"}
    for key, kind in what.items():
        one, other = (_prior_text(each, key) for each in (posterior, reference))
        if one and other and one != other:
            text = text.replace(f" {_LARGER}", "").replace(_LOWERS, "")
            said = f"The {kind} differ, which moves a posterior whatever the coreset: {one}, the reference's {other}."
            text = f"{said} Compare posteriors under one prior. {text}"
    if posterior.terms:
        text += " Effects of single groups are not compared."
    return replace(result, text=text)


def _prior_text(posterior: Posterior, key: str) -> str:
    """Return a prior as text that is equal where priors are; empty where it is not known."""
    is_stored = key in (posterior.story if key == "prior" else posterior.attrs)
    return str(getattr(posterior, key)) if is_stored else ""


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
    for one in read.values():
        if None not in (one.design, reference.design) and one.design != reference.design:
            raise DataError(
                f"{one.name}: its design matrix is not that of the reference (intercept, centers or scales differ), so "
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


def _coordinates(
    name: str, posterior: Posterior, reference: Posterior, difference: Moments, mcse: Moments
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "candidate": name,
            "feature": list(reference.features),
            "mean": posterior.flat.mean(axis=0),
            "sd": posterior.flat.std(axis=0, ddof=1),
            "reference_mean": reference.flat.mean(axis=0),
            "reference_sd": reference.flat.std(axis=0, ddof=1),
            "mean_error_sd": difference.mean,
            "mean_error_sd_mcse": mcse.mean,
            "sd_error": difference.sd,
            "sd_error_mcse": mcse.sd,
        }
    )
