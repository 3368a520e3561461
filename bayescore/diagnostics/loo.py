r"""Leave-one-out of every row of the full data, as the `ELPDData` that ArviZ's own functions take.

For what ArviZ does with pointwise values: `arviz.compare` with its stacking weights, `plot_compare`, `plot_khat`. It
takes two passes and, for the smoothing of each row's weights, 0.1 ms (ArviZ 0.23) to 0.4 ms (ArviZ 1) a row beside
them: for more than some 1e5 rows use `loo_compare`, and `certify` for the elpd of one model.

Models of the same data compared by leave-one-out: differences of their elpds with standard errors of their own.

Two models predict the same rows, and what is hard for one is so for the other: the standard error of a difference

.. math:: \mathrm{elpd}_a - \mathrm{elpd}_b = \sum_n w_n d_n, \quad d_n = e_{an} - e_{bn}, \qquad
          \mathrm{se}^2 = \sum_n w_n d_n^2 - \frac{(\sum_n w_n d_n)^2}{\sum_n w_n}

is many times smaller than either elpd's own, and needs e_n of both for the same rows. Here e_n, the sampled rows, and
the importance weights from the coreset's to the full data's posterior are those of `elpd`. All rows give c_n of every
model, whose products over the pass are sums too. Some rows, the same for all models, give e_n itself. Models of one
design share one reading of the data; other designs are read in step with it.

One reading of the full data by several models: sums over all rows of what each model says about each.

Models of one design share one reading. Other designs are read in step with it, block by block, so that what two models
say about a row can be multiplied. A model's log predictive density with row n left out is e_n (see `elpd`); c_n = E l_n
- var l_n / 2 is its first estimate. The moments are over the normal density that has the draws' mean and covariance,
and log-likelihoods of all rows come from a sample of them (`row_sums`). Models with group terms, and all models where
that sample does not tell enough, are evaluated at all draws, and the moments are over these.

Draws that rows of the full data are left out of, and their weights from the coreset's to the full posterior.

References
----------
Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation, Statistics and Computing 27. Magnusson, Vehtari,
Jonasson and Andersen (2020), Leave-one-out cross-validation for Bayesian model comparison in large data, AISTATS.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from bayescore.compat import elpd_data
from bayescore.compiled import one_blas_thread
from bayescore.data.coreset import Coreset, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.data.passes import map_stream
from bayescore.data.responses import POSITIVE, TIMED, events_of, response_text
from bayescore.diagnostics.elpd import (
    PassSums,
    Responses,
    SampledCounts,
    count_moments,
    leave_rows_out,
    left_out_of,
    psis_loo,
    rows_left_out,
    sampled_counts,
    whole_counts,
)
from bayescore.diagnostics.row_sums import (
    FINE,
    BlockPart,
    EveryRowPlan,
    Gathered,
    RowSumsPlan,
    check_weight,
    full_rows,
    has_weights,
    laplace_of_draws,
)
from bayescore.families import Family
from bayescore.limits import FINITE_K, MAX_BAD_K_SHARE, MAX_K
from bayescore.models.posterior import log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.numerics.psis import FullWeights, full_weights
from bayescore.numerics.sampling import Draw, Threshold
from bayescore.samplers.posterior import read_posterior, transport_of_draws
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError, check_integer, warn


@dataclass(frozen=True, eq=False)
class LooDraws:
    """Draws of one model, those of all chains below each other.

    `corrected` draws are of the full data's posterior already. `log_base`, shape (S,), is the coreset's log-likelihood
    at each draw before `sample` moved it, plus the log ratio of the prior at that point to the prior at the draw.
    """

    name: str
    n_chains: int
    predictor: Predictor
    core: Coreset
    family: Family
    corrected: bool
    log_base: FloatArray


def loo_draws(name: str, idata: Any, core: Coreset, max_draws: int, *, weighted: bool) -> LooDraws:
    """Return at most `max_draws` draws of a posterior, evenly spaced.

    Raises
    ------
    TypeError, DataError
        If they are no draws of the coreset's posterior, or of counts that are `weighted`.
    """
    if not isinstance(core, Coreset):
        raise TypeError(f"{name}: a {type(core).__name__} stands for the coreset; give (posterior, coreset)")
    posterior = read_posterior(idata, name)
    if "spread" in posterior.attrs:
        raise DataError(
            f"{name}: the spread of its draws is {posterior.attrs['spread']}: no row can be left out of it; give "
            "those of the model's own posterior, fit.cluster_robust(None).idata"
        )
    if core.counts and (weighted or core.design.weighted):
        exponential = posterior.family.exponential
        why = ", which cannot be told from exposures" if exponential else ""
        raise DataError(
            f"{name} is a model of {core.response} with weights{why}: leave rows of {core.response} out without weights"
            f"{', or compare models by log_evidence' if exponential else ''}"
        )
    check_same_design(core, posterior.features, posterior.design, f"the coreset of {name}")
    if posterior.story and posterior.story["rows"] != core.rows_digest:
        raise DataError(f"{name}: the draws are of another coreset's posterior; give the one that was sampled")
    predictor, n_chains = posterior.predictor(max_draws).for_rows(core.n_total), len(posterior.draws)
    family, corrected = posterior.family, "corrected" in posterior.attrs
    if corrected:
        log_base = np.zeros(len(predictor))
    elif (move := transport_of_draws(posterior, core, family)) is None:
        log_base = log_likelihoods(predictor, core, family)
    else:
        drawn, prior = move.inverse(predictor.beta), posterior.prior
        log_base = log_likelihoods(drawn, core, family) + prior.log_density(drawn) - prior.log_density(predictor.beta)
    return LooDraws(name, n_chains, predictor, core, family, corrected, log_base)


def weights_of(model: LooDraws, log_likelihood: FloatArray) -> FullWeights:
    """Return the weights of draws whose log-likelihood of the full data, shape (S,), is known; equal if corrected."""
    return full_weights(np.zeros(len(log_likelihood)) if model.corrected else log_likelihood - model.log_base)


def weights_remedy(full: FullWeights) -> str:
    """Return what to do where weights cannot be trusted."""
    return (
        f"its draws are too far from the full data's posterior (k-hat {full.pareto_k:.2g} of the weights): certify "
        "them and give certificate.idata, or sample a larger coreset"
    )


_DRAWS_A_COLUMN = 4  # from which on draws tell a covariance well enough to expand about


@dataclass(frozen=True, eq=False)
class _DesignBlock:
    """What some rows say about the models of one design."""

    index: IntArray
    responses: FloatArray | LabelArray  # labels; of numbers and times the offsets that these are
    weights: FloatArray
    sums: list[BlockPart]
    sample: Draw


@dataclass(frozen=True, eq=False)
class LooSums:
    """What the passes keep of all rows: sums of each model, and the products sum w c c' of all of them."""

    models: list[PassSums]
    products: FloatArray
    weight: float


def _plan(draws: LooDraws) -> RowSumsPlan | None:
    """Return the plan of a sample of rows near the draws; None where they have more parameters or are too few."""
    beta = draws.predictor.beta
    if draws.predictor.factors or draws.predictor.size is not None or len(beta) < _DRAWS_A_COLUMN * beta.shape[1]:
        return None
    near = laplace_of_draws(draws.family, beta)
    return None if near is None else RowSumsPlan.near(near, draws.core, FINE)


class _ModelPass:
    """A model in a pass: the plan, and what was found so far; it stays where the pass is begun."""

    def __init__(self, draws: LooDraws, *, exact: bool) -> None:
        plan = None if exact else _plan(draws)
        self.plan = EveryRowPlan(draws.predictor, draws.family) if plan is None else plan
        self.draws, self.gathered, self.bar = draws, Gathered(self.plan), Threshold()


def _results(models: Sequence[_ModelPass], dataset: Dataset, block_rows: int) -> Iterator[_DesignBlock]:
    same_cuts = Dataset(dataset.rows, dataset.design, progress=dataset.progress, block_rows=block_rows)
    plans, bars = [each.plan for each in models], [each.bar for each in models]
    family = models[0].draws.family

    def responses(block: WeightedData) -> FloatArray | LabelArray:
        return block.offset if (family.numbers or family.times) and block.offset is not None else block.y

    def of_block(start: int, block: WeightedData) -> _DesignBlock:
        sums = [plan(start, block, bar) for plan, bar in zip(plans, bars, strict=True)]
        return _DesignBlock(block.index, responses(block), block.weights, sums, rows_left_out(start, block))

    for one in same_cuts.map(of_block, "comparing", canonical=True):
        yield one
        bars[:] = [each.bar for each in models]


def loo_pass(designs: list[list[LooDraws]], dataset: list[Dataset], *, exact: bool = False) -> LooSums:
    """Return the sums of all rows, the designs read in step; one pass, or one more where a sample does not tell them.

    With `exact` all rows are evaluated at all draws.

    Raises
    ------
    DataError
        If the designs take other rows of the data.
    """
    step = min(each.block_rows for each in dataset)
    by_design = [[_ModelPass(draws, exact=exact) for draws in group] for group in designs]
    samples: list[Draw] = []
    models = [model for group in by_design for model in group]
    products, weight = np.zeros((len(models), len(models))), 0.0
    for blocks in zip_longest(*(_results(*each, step) for each in zip(by_design, dataset, strict=True))):
        one = blocks[0]
        if not all(_same_rows(one, other) for other in blocks[1:]):
            raise DataError(
                "models must be of the same rows and responses, in the same unit, and of counts all with exposure= or "
                "all with its log as offset; with missing='drop' each leaves out what its own columns miss: leave rows "
                "with missing values out before"
            )
        parts = [each for block in blocks for each in block.sums]
        for model, each in zip(models, parts, strict=True):
            model.bar = model.gathered.add(each)
        first = np.array([each.first for each in parts])
        products += (first * one.weights) @ first.T
        weight += float(one.weights.sum())
        drawn = [block.sample for block in blocks]
        samples = [left_out_of(pair) for pair in zip(samples, drawn, strict=True)] if samples else drawn
    of_models = [(model, sample) for group, sample in zip(by_design, samples, strict=True) for model in group]
    sums = [model.gathered.row_sums(sample).at(model.draws.predictor.beta) for model, sample in of_models]
    complete = [each for each in sums if each is not None]
    if len(complete) < len(models):
        return loo_pass(designs, dataset, exact=True)
    return LooSums(complete, products, weight)


def _same_rows(one: _DesignBlock | None, other: _DesignBlock | None) -> bool:
    if one is None or other is None:
        return False
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("index", "responses", "weights"))


def loo(
    idata: Any, core: Coreset, data: Any, y: Any = None, *, max_draws: int = 500, progressbar: bool = True, **roles: Any
) -> Any:
    r"""Return the leave-one-out predictive density of each row of the full data, from a coreset's posterior.

    .. math:: e_n = \log \sum_s v_{ns} p_n(\theta_s), \qquad v_{ns} \propto W_s / p_n(\theta_s),

    v smoothed by PSIS, W the importance weights from the coreset's to the full data's posterior. Of a posterior of all
    rows W is 1, and the values are those of `arviz.loo`. `roles` are those of the data's columns, as given to
    `build_coreset`.
    """
    check_integer(max_draws, "max_draws", low=100)
    model = loo_draws("idata", idata, core, max_draws, weighted=has_weights(data, roles.get("weights")))
    dataset = full_rows(core, data, y, progress=progressbar, **roles)
    with one_blas_thread():
        sums = loo_pass([[model]], [dataset])
        check_weight(core, sums.weight)
        full = weights_of(model, sums.models[0].log_likelihood)
        if not full.good:
            raise DataError(f"idata: {weights_remedy(full)}")
        draws, family, log_ratio = model.predictor, model.family, full.log_ratio
        with np.errstate(divide="ignore"):
            log_w = np.log(full.weights)

        def of_block(_: int, block: WeightedData) -> FloatArray:
            rows = Responses(*events_of(block)) if family.counts else Responses(block)
            if (rows.weights != 1.0).any():
                raise DataError("data has rows of weight other than 1, which ArviZ would count once; use loo_compare")
            tiles = []
            for _rows, log_p in rows.tiles(draws, family):
                left = psis_loo(log_p, log_ratio)
                tiles.append(np.stack([left.value, left.k, logsumexp(log_p + log_w, axis=1)]))
            return np.concatenate(tiles, axis=1)

        if family.counts:  # whose two sides no cut may part
            blocks = map_stream(whole_counts(dataset.blocks()), of_block, None, dataset.cores)
            parts = list(dataset.tracked(blocks, "leaving out"))
        else:
            parts = list(dataset.map(of_block, "leaving out", canonical=True))
        value, k, fitted = np.concatenate(parts, axis=1)
    return elpd_data(value, k, float((fitted - value).sum()), len(draws))


_COUNTS = 20_000  # sampled for their second moments


_SEED = 2020  # of the sample: the same data give the same rows


def loo_compare(
    models: Mapping[str, Any],
    data: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    trials: Any = None,
    exposure: Any = None,
    missing: str = "raise",
    max_draws: int = 500,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Compare models by the leave-one-out predictive density of the full data, in one pass over them, or two.

    Counts take one more pass for each design.

    Parameters
    ----------
    models : mapping of str to Fit, or to (InferenceData, Coreset)
        Fits, or posteriors and the coresets of `data` that they are of: other formulas, likelihoods or priors. Draws
        that `certify` corrected (``certificate.idata``) are taken as the full data's posterior, others are weighted.
    data, y, label, weights, offset, groups, trials, exposure, missing
        The full data, as given to `build_coreset`. With ``missing="drop"`` all models must use the same rows. Fits that
        have their rows need none of these; their rows must be the same.
    max_draws : int
        Draws of each model that are used, evenly spaced.
    progressbar : bool
        Show progress.

    Returns
    -------
    DataFrame, one row for each model, the best first
        ``rank``; ``elpd_loo`` and its standard error ``se`` for other rows like these. ``elpd_diff`` is
        the elpd less the best one's, ``dse`` its standard error, and ``diff_mcse`` what draws and sampled rows leave
        open of it. ``pareto_k`` is k-hat of the weights from the coreset's to the full posterior. ``bad_k`` counts
        those of the (at most 1,000) rows left out whose k-hat is above 0.7. All in nats.

    Raises
    ------
    TypeError, DataError
        If a posterior is not that of its coreset, or the coresets are not all of these data, of the same rows.

    Warns
    -----
    UserWarning
        Of a model whose weights, or whose rows left out, cannot be trusted; its figures are NaN.

    Notes
    -----
    In models with groups a row's density is conditional, given the effect of its group, as in `Fit.loo`.

    A difference of less than four nats, or of less than about two `dse`, is inconclusive (Sivula, Magnusson, Matamoros
    and Vehtari 2025, Bayesian Analysis). For `arviz.compare` and stacking see `Fit.loo`.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> models = {}
    >>> for family in ("logistic", "probit"):
    ...     core = bc.build_coreset(X, y, family=family, random_state=1, progressbar=False)
    ...     models[family] = bc.sample(core, random_seed=2, progressbar=False), core
    >>> bc.loo_compare(models, X, y, progressbar=False)["rank"].to_dict()
    {'logistic': 0, 'probit': 1}
    """
    check_integer(max_draws, "max_draws", low=100)
    if not isinstance(models, Mapping):
        raise TypeError(f"models is a {type(models).__name__}; give a dict, name to fit or to (posterior, coreset)")
    if len(models) < 2:
        raise DataError(f"models has {len(models)} entries; give two or more, name to fit or to (posterior, coreset)")
    roles = {"label": label, "weights": weights, "offset": offset, "groups": groups}
    roles |= {"trials": trials, "exposure": exposure, "missing": missing}
    asked = {"y": y, **roles, "missing": None if missing == "raise" else missing}
    if data is None and (extra := [name for name, value in asked.items() if value is not None]):
        raise TypeError(f"{extra[0]} is given and data is not: give both, or fits that have their rows and neither")
    designs: dict[Any, tuple[_LabelledRows, list[LooDraws]]] = {}
    for name, given in models.items():
        if hasattr(given, "ordered"):
            raise DataError(
                f"models[{name!r}] is of ordered categories, whose rows are several labels each: compare fits by "
                "arviz.compare({name: fit.loo()})"
            )
        rows = _LabelledRows(data, y, roles) if data is not None else _rows_of(str(name), given)
        if hasattr(given, "coreset"):  # a fit; `fitting` imports this module
            given = given._used, given.coreset
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"models[{name!r}] is a {type(given).__name__}; give a fit, or (posterior, coreset)")
        weighted = has_weights(rows.data, rows.roles.get("weights"))
        model = loo_draws(str(name), *given, max_draws, weighted=weighted)
        designs.setdefault((model.core.design, rows.key), (rows, []))[1].append(model)
    by_design = [design for _, design in designs.values()]
    first = by_design[0][0]
    for model in (each for models_of in by_design for each in models_of):
        if model.core.classes != first.core.classes:
            numbers = {model.core.response, first.core.response} <= {"numbers", POSITIVE, TIMED}
            remedy = "if both are of the same y, compare them by az.compare of each fit's loo()"
            raise DataError(
                f"models[{model.name!r}] has {response_text(model.core.classes)}, models[{first.name!r}] "
                f"{response_text(first.core.classes)}; "
                + (remedy if numbers else "build both of one response, labels with the same positive=")
            )
    dataset = [
        full_rows(row_design[0].core, rows.data, rows.y, progress=progressbar and k == 0, **rows.roles)
        for k, (rows, row_design) in enumerate(designs.values())
    ]
    with one_blas_thread():
        sums = loo_pass(by_design, dataset)
        for models_of in by_design:
            for model in models_of:
                check_weight(model.core, sums.weight)
        if first.family.counts:
            sums = _with_count_samples(by_design, dataset, sums)
        return _table(by_design, sums)


class _LabelledRows(NamedTuple):
    """Rows, labels and roles."""

    data: Any
    y: Any
    roles: Mapping[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal where the same rows are given: names, and otherwise objects that are the same."""
        parts = [("data", self.data), ("y", self.y), *sorted(self.roles.items())]
        return tuple((name, str(value) if isinstance(value, str | Path) else id(value)) for name, value in parts)


def _rows_of(name: str, given: Any) -> _LabelledRows:
    """Return the rows that a fit has."""
    if getattr(given, "_given", None) is None:
        raise DataError(f"models[{name!r}] does not have its rows: give data, the rows that all models are of")
    rows = given._rows_of_data
    return _LabelledRows(rows.data, rows.y, rows.roles)


def _with_count_samples(designs: list[list[LooDraws]], dataset: list[Dataset], sums: LooSums) -> LooSums:
    """Return the sums of models of counts, with samples of their rows; one pass for each design and family."""
    samples: dict[tuple[int, str], SampledCounts] = {}
    of_models = []
    for place, (models, rows) in enumerate(zip(designs, dataset, strict=True)):
        for family in (model.family for model in models):
            if (place, family.name) not in samples:
                samples[place, family.name] = sampled_counts(rows, family, _COUNTS, _SEED)
            of_models.append(samples[place, family.name])
    counts = list(samples.values())
    if any(not np.array_equal(each.responses.rows.index, counts[0].responses.rows.index) for each in counts):
        raise DataError(
            "models must be of the same rows and responses, and of counts all with exposure= or all with its log as "
            "offset; leave missing values out before"
        )
    drawn = [(model.predictor, model.family) for models in designs for model in models]
    moments = [count_moments(draws, each, family) for (draws, family), each in zip(drawn, of_models, strict=True)]
    parts = zip(sums.models, of_models, moments, drawn, strict=True)
    of_counts = [each.of_counts(sampled, own, sampled.constant_at(*model)) for each, sampled, own, model in parts]
    first = np.array([mean - 0.5 * var for mean, var in moments])
    n_rows = counts[0].n_rows
    return LooSums(of_counts, n_rows / first.shape[1] * first @ first.T, float(n_rows))


def _table(designs: list[list[LooDraws]], sums: LooSums) -> pd.DataFrame:
    """Return the table from what the pass found, in the same order."""
    models = [model for group in designs for model in group]
    rows, n_rows = sums.models[0].left_out
    w = rows.weights
    scale = n_rows / len(w)
    full = [weights_of(model, each.log_likelihood) for model, each in zip(models, sums.models, strict=True)]
    sampled = [
        leave_rows_out(total, each.log_ratio, each.weights, model.predictor, model.family, n_chains=model.n_chains)
        for model, each, total in zip(models, full, sums.models, strict=True)
    ]
    rest, value, first = (np.array([getattr(each, name) for each in sampled]) for name in ("rest", "value", "first"))
    pairs = zip(full, sums.models, strict=True)
    elpd = np.array([each.weights @ total.log_likelihood - 0.5 * total.variance for each, total in pairs])
    elpd = elpd + scale * rest @ w
    products = sums.products + scale * ((value * w) @ value.T - (first * w) @ first.T)
    bad = np.array([np.count_nonzero(each.k > MAX_K) for each in sampled])
    for k, (model, weighted) in enumerate(zip(models, full, strict=True)):
        if not weighted.good or bad[k] > MAX_BAD_K_SHARE * len(w):
            many = f"k-hat is above {MAX_K} for {bad[k]} of {len(w)} rows left out: they hold its posterior in place"
            warn(f"models[{model.name!r}] has no elpd: {many if weighted.good else weights_remedy(weighted)}")
            elpd[k] = np.nan
    order = np.argsort(-elpd, kind="stable")  # NaN last
    best = order[0]
    variance = products.diagonal() - elpd**2 / sums.weight
    between = products.diagonal() + products[best, best] - 2.0 * products[best] - (elpd - elpd[best]) ** 2 / sums.weight
    noise = np.array([each.noise for each in sampled])
    gap = w * (rest - rest[best])
    sampling = 0.0 if scale == 1.0 else n_rows * (scale - 1.0) * gap.var(axis=1, ddof=1)
    heavy = np.array([each.k > FINITE_K for each in sampled])  # e_n has no standard error
    unknown = scale * (np.where(heavy | heavy[best], gap, 0.0) ** 2).sum(axis=1)
    mcse = np.sqrt(noise + noise[best] + sampling + unknown)
    mcse[best] = 0.0
    table = pd.DataFrame(
        {
            "rank": np.argsort(order),
            "elpd_loo": elpd,
            "se": np.sqrt(np.maximum(variance, 0.0)),
            "elpd_diff": elpd - elpd[best],
            "dse": np.sqrt(np.maximum(between, 0.0)),
            "diff_mcse": np.where(np.isnan(elpd), np.nan, mcse),
            "pareto_k": [weighted.pareto_k for weighted in full],
            "bad_k": bad,
        },
        index=pd.Index([model.name for model in models], name="model"),
    )
    return table.iloc[order]
