r"""One reading of the full data by several models: sums over all rows of what each model says about each.

Models of one design share one reading. Other designs are read in step with it, block by block, so that what two models
say about a row can be multiplied. A model's log predictive density with row n left out is e_n (see `elpd`); c_n = E l_n
- var l_n / 2 is its first estimate. The moments are over the normal density that has the draws' mean and covariance,
and log-likelihoods of all rows come from a sample of them (`row_sums`). Models with group terms, and all models where
that sample does not tell enough, are evaluated at all draws, and the moments are over these.

Draws that rows of the full data are left out of, and their weights from the coreset's to the full posterior.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.elpd import Cumulants, PassSums, cumulants, left_out_of, rows_left_out
from bayescore.diagnostics.row_sums import FINE, Gathered, Look, Looked
from bayescore.families import Family
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.numerics.psis import FullWeights, full_weights
from bayescore.numerics.sampling import Bar, Draw
from bayescore.priors.by_name import prior_from_dict
from bayescore.samplers.posterior import move_of, read_posterior
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class LooDraws:
    """Draws of one model, those of all chains below each other.

    `shape` is the number of chains and of draws of each; `corrected` draws are of the full data's posterior already.
    `log_base`, shape (S,), is the coreset's log-likelihood at each draw before `sample` moved it, and the log ratio of
    the prior there to that here.
    """

    name: str
    shape: tuple[int, int]
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
            f"{name} is a model of counts with weights{why}: leave rows of counts out without weights"
            f"{', or compare models by log_evidence' if exponential else ''}"
        )
    check_same_design(core, posterior.features, posterior.design, f"the coreset of {name}")
    if posterior.story and posterior.story["rows"] != core.rows_digest:
        raise DataError(f"{name}: the draws are of another coreset's posterior; give the one that was sampled")
    predictor, n_chains = posterior.predictor(max_draws), len(posterior.draws)
    family, corrected = posterior.family, "corrected" in posterior.attrs
    if corrected:
        log_base = np.zeros(len(predictor))
    elif (move := move_of(posterior, core, family)) is None:
        log_base = log_likelihoods(predictor, core, family)
    else:
        drawn, prior = move.inverse(predictor.beta), prior_from_dict(posterior.story["prior"])
        log_base = log_likelihoods(drawn, core, family) + prior.log_density(drawn) - prior.log_density(predictor.beta)
    shape = n_chains, len(predictor) // n_chains
    return LooDraws(name, shape, predictor, core, family, corrected, log_base)


def weights_of(model: LooDraws, log_likelihood: FloatArray) -> FullWeights:
    """Return the weights of draws whose log-likelihood of the full data, shape (S,), is known; equal if corrected."""
    return full_weights(np.zeros(len(log_likelihood)) if model.corrected else log_likelihood - model.log_base)


def too_far(full: FullWeights) -> str:
    """Return what to do where weights cannot be trusted."""
    return (
        f"its draws are too far from the full data's posterior (k-hat {full.pareto_k:.2g} of the weights): certify "
        "them and give certificate.idata, or sample a larger coreset"
    )


_DRAWS_A_COLUMN = 4  # from which on draws tell a covariance well enough to expand about


@dataclass(frozen=True, eq=False)
class _Block:
    """What some rows say about the models of one design."""

    index: IntArray
    labels: LabelArray
    weights: FloatArray
    found: list[Looked | Cumulants]
    sample: Draw


@dataclass(frozen=True, eq=False)
class LooSums:
    """What the passes keep of all rows: sums of each model, and the products sum w c c' of all of them."""

    models: list[PassSums]
    products: FloatArray
    weight: float


@dataclass(eq=False)
class _Model:
    """A model in a pass: what it asks of rows, and what was found so far; `gathered` stays where the pass is begun."""

    draws: LooDraws
    look: Look | None

    def __post_init__(self) -> None:
        self.gathered = None if self.look is None else Gathered(self.look)
        self.bar = Bar()
        self.total, self.variance, self.square, self.weight = np.zeros(len(self.draws.predictor)), 0.0, 0.0, 0.0

    def add(self, found: Looked | Cumulants, weights: FloatArray) -> None:
        """Take in a block."""
        if isinstance(found, Looked):
            assert self.gathered is not None
            self.bar = self.gathered.add(found)
        else:
            self.total = self.total + found.log_likelihood
            self.variance += found.variance
            self.square += float(weights @ found.first**2)
            self.weight += float(weights.sum())

    def sums(self, sample: Draw) -> PassSums | None:
        """Return the sums at all draws; None where the sample of rows does not tell them."""
        if self.gathered is None:
            return PassSums(self.total, self.variance, self.square, self.weight, sample)
        return self.gathered.row_sums(sample).at(self.draws.predictor.beta)


def _look(draws: LooDraws) -> Look | None:
    """Return what is asked of rows near the draws; None where they have effects of groups or are too few to tell."""
    beta = draws.predictor.beta
    if draws.predictor.factors or len(beta) < _DRAWS_A_COLUMN * beta.shape[1]:
        return None
    try:
        factor = np.linalg.cholesky(np.atleast_2d(np.cov(beta.T)))
    except np.linalg.LinAlgError:  # draws that do not move along some direction
        return None
    return Look.near(LaplaceApproximation(draws.family, beta.mean(axis=0), factor), draws.core, FINE)


def _results(models: Sequence[_Model], dataset: Dataset, block_rows: int) -> Iterator[_Block]:
    same_cuts = Dataset(dataset.rows, dataset.design, progress=dataset.progress, block_rows=block_rows)
    exact = [(each.draws.predictor, each.draws.family) if each.look is None else None for each in models]
    looks, bars = [each.look for each in models], [each.bar for each in models]

    def of_block(start: int, block: WeightedData) -> _Block:
        found: list[Looked | Cumulants] = []
        for k, (look, own) in enumerate(zip(looks, exact, strict=True)):
            if look is not None:
                found.append(look(start, block, bars[k]))
            else:
                assert own is not None
                found.append(cumulants(own[0], block, own[1]))
        return _Block(block.index, block.y, block.weights, found, rows_left_out(start, block))

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
    by_design = [[_Model(draws, None if exact else _look(draws)) for draws in group] for group in designs]
    samples: list[Draw] = []
    models = [model for group in by_design for model in group]
    products, weight = np.zeros((len(models), len(models))), 0.0
    for blocks in zip_longest(*(_results(*each, step) for each in zip(by_design, dataset, strict=True))):
        one = blocks[0]
        if not all(_same_rows(one, other) for other in blocks[1:]):
            raise DataError(
                "the models' designs take other rows of data: with missing='drop' each leaves out what its own columns "
                "miss; leave rows with missing values out before coresets are built. Fits must be of the same rows, "
                "and of counts all with exposure= or all with its log as offset="
            )
        found = [each for block in blocks for each in block.found]
        for model, each in zip(models, found, strict=True):
            model.add(each, one.weights)
        first = np.array([each.first for each in found])
        products += (first * one.weights) @ first.T
        weight += float(one.weights.sum())
        drawn = [block.sample for block in blocks]
        samples = [left_out_of(pair) for pair in zip(samples, drawn, strict=True)] if samples else drawn
    own = [sample for group, sample in zip(by_design, samples, strict=True) for _ in group]
    sums = [model.sums(sample) for model, sample in zip(models, own, strict=True)]
    known = [each for each in sums if each is not None]
    if len(known) < len(models):
        return loo_pass(designs, dataset, exact=True)
    return LooSums(known, products, weight)


def _same_rows(one: _Block | None, other: _Block | None) -> bool:
    if one is None or other is None:
        return False
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("index", "labels", "weights"))
