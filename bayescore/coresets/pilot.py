r"""The mode of the full data in few passes, and the draws that a calibration needs in the last of them.

A *pilot*, some ten thousand rows with both labels of every column, is drawn as the rows are checked
(`sampling.draw_by_column`). One pass sums the log-likelihood, its gradient and its Hessian at the pilot's mode. With
these the pilot becomes a model of the full data,

.. math:: L_p(\theta) + (L - L_p)(t) + (g - g_p)'\delta - \tfrac12 \delta'(H - H_p)\delta, \qquad \delta = \theta - t,

that is exact to second order at t and leaves only the third and higher orders to the sample. Its mode is far nearer the
full data's than a Newton step ends. The next pass is made there: it sums the same terms, which say how far the mode is,
and finds all else that is wanted at the mode (`look`). Where the mode is more than `CLOSE` away, the pass is the start
of another such step. A pilot whose steps do not halve the distance has missed something, and one is drawn anew by score
and curvature; where that does not help, Newton's method goes on alone.

Passes: one at the pilot's mode, and one for each step, mostly one. The sums that scale the terms of a row's probability
are estimated from the pilot, as no draw needs them exactly; totals are exact.

References
----------
Jordan, Lee and Yang (2019), Communication-efficient distributed statistical inference, JASA 114, whose surrogate has
the gradient alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bayescore.data.dataset import Dataset
from bayescore.families import Family
from bayescore.models.laplace import (
    EQUAL_SHARE,
    LaplaceApproximation,
    Mode,
    NoModeError,
    RowScores,
    cholesky_and_decrement,
    factor_of_inverse,
    find_mode,
)
from bayescore.models.modes import search_start
from bayescore.models.posterior import (
    Derivatives,
    TargetDensity,
    full_terms,
    likelihood_terms,
    no_terms,
    posterior,
    prior_part,
)
from bayescore.numerics.sampling import (
    ROWS_PER_COLUMN,
    CandidatePool,
    Candidates,
    Chosen,
    Threshold,
    candidates,
    draw_candidates,
    sample_by_column,
    select,
)
from bayescore.priors import Prior
from bayescore.types import FloatArray, WeightedData

MAX_PILOTS = 5


MAX_STEPS = 50  # of the search for the mode of a surrogate, which may have none


# by how much of its value the log posterior of all rows may be lower at the pilot's mode than where its search began:
# it is lower where a level has counts in the pilot and no exposure, so that nothing bounds its rate
MAX_RELATIVE_LOSS = 0.1
CLOSE = 0.05  # posterior sds: what all is matched at so far from the mode is off there by the square of that


@dataclass(frozen=True, eq=False)
class Shares:
    """What the terms of a row's probability are divided by: sums over all rows of g^2, g, h, reach and w, about."""

    laplace: LaplaceApproximation
    squares: float
    norms: float
    leverages: float
    reach: float
    weights: float

    @classmethod
    def estimated(cls, laplace: LaplaceApproximation, sample: Chosen, weight_total: float) -> "Shares":
        """Return the sums as a sample of the rows has them."""
        g, h, reach, _ = laplace.row_scores(sample.rows)
        least = np.finfo(float).tiny  # columns may all be zero
        sums = (max(float((value / sample.inclusion).sum()), least) for value in (g**2, g, h, reach))
        squares, norms, leverages, far = sums
        return cls(laplace, squares, norms, leverages, far, weight_total)

    def of(self, scores: RowScores, weights: FloatArray) -> FloatArray:
        """Return p = g^2 / sum g^2 + g / sum g + h / sum h + 0.1 w / W, shape (n,)."""
        g, h = scores.g, scores.h
        rest = h * (1.0 / self.leverages) + weights * (0.1 / self.weights)
        return np.asarray(g * (g * (1.0 / self.squares) + 1.0 / self.norms) + rest)

    def probability(self, block: WeightedData) -> FloatArray:
        """Return p of the rows of a block, shape (n,)."""
        return self.of(self.laplace.row_scores(block), block.weights)

    def far(self, scores: RowScores, weights: FloatArray) -> FloatArray:
        """Return the probabilities by reach, shape (n,), of the sample that estimates remainders."""
        return np.asarray(scores.reach * (1.0 / self.reach) + weights * (EQUAL_SHARE / self.weights))


class PilotPass(NamedTuple):
    """The results of one pass at a point.

    The log-likelihood's terms; `candidates` of draws by score and curvature and the sum `total` of their p over all
    rows; the exact total of the pulls, shape (D,); a sample by reach.
    """

    part: Derivatives
    candidates: Candidates
    total: float
    pull: FloatArray
    sample: Chosen


def survey(
    dataset: Dataset,
    shares: Shares,
    size: int,
    sample_size: int,
    seeds: tuple[int, int],
    *,
    part: Derivatives | None = None,
) -> PilotPass:
    """Return candidates for up to `size` rows, the pulls' total, and a sample for remainders; one pass.

    `part` are the terms of the log-likelihood; the pass sums them where they are not known.
    """
    laplace, has_part = shares.laplace, part is not None
    near, far = CandidatePool(size), CandidatePool(sample_size)
    bars = Threshold(), Threshold()

    def one(start: int, block: WeightedData) -> tuple[Candidates, Candidates, FloatArray, Derivatives | None]:
        scores = laplace.row_scores(block)
        p, q = shares.of(scores, block.weights), shares.far(scores, block.weights)
        pull = scores.third @ block.X
        close = candidates(p, start, block, size, seeds[0], bar=bars[0])
        reaching = candidates(q, start, block, sample_size, seeds[1], bar=bars[1])
        terms_here = None if has_part else likelihood_terms(laplace.theta, block, laplace.family)
        return close, reaching, np.append(pull, [p.sum(), q.sum()]), terms_here

    sums: FloatArray = np.zeros(len(laplace.theta) + 2)
    terms = no_terms(len(laplace.theta)) if part is None else part
    for close, reaching, shared, terms_of_block in dataset.map(one, "scores", canonical=True):
        bars = near.add(close), far.add(reaching)
        sums = sums + shared
        terms = terms if terms_of_block is None else terms + terms_of_block
    sample = select(far.best(), sample_size, float(sums[-1]))
    return PilotPass(terms, near.best(), float(sums[-2]), sums[:-2] @ laplace.factor, sample)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A pilot's log posterior, moved to the full data's value, gradient and Hessian, `here`, at the point `at`."""

    pilot: TargetDensity
    at: FloatArray
    here: Derivatives

    def mode(self) -> Mode | None:
        """Return the mode, sought from the point; None where the search does not end."""
        missing = self.here - self.pilot.terms(self.at)

        def terms(beta: FloatArray) -> Derivatives:
            move = beta - self.at
            bend = missing.precision @ move
            value = missing.value + float(move @ missing.gradient - 0.5 * move @ bend)
            return self.pilot.terms(beta) + Derivatives(value, missing.gradient - bend, missing.precision)

        try:
            return find_mode(terms, self.at, first=self.here, tolerance=1e-3, max_steps=MAX_STEPS)
        except NoModeError:
            return None


class Surveyed(Protocol):
    """What a `look` at all rows returns."""

    @property
    def part(self) -> Derivatives:
        """The log-likelihood of all rows and its derivatives at the point."""


S = TypeVar("S", bound=Surveyed)


def full_mode(
    dataset: Dataset, family: Family, prior: Prior, seeds: list[int], look: Callable[[Shares], S]
) -> tuple[Shares, S]:
    """Return the shares of rows at the MAP of the full data, to `CLOSE` posterior sds, and what `look` finds there.

    ``look(shares)`` makes one pass. `seeds` has `MAX_PILOTS` entries.
    """
    pilot = sample_by_column(dataset, seeds[0])
    size = min(dataset.scan.n_rows, max(5000, ROWS_PER_COLUMN * dataset.n_features))

    def target() -> TargetDensity:
        return posterior(pilot.expanded(), family, prior)

    def looked(mode: Mode) -> tuple[Shares, S, Derivatives, float]:
        laplace = LaplaceApproximation(family, mode.beta, mode.factor)
        shares = Shares.estimated(laplace, pilot, dataset.scan.weight_total)
        seen = look(shares)
        terms_at_mode = seen.part + prior_part(mode.beta, prior)
        return shares, seen, terms_at_mode, cholesky_and_decrement(terms_at_mode)[1]

    def terms(beta: FloatArray) -> Derivatives:
        return full_terms(beta, dataset, family, prior_part(beta, prior))

    density, start = target(), search_start(pilot.expanded(), family)
    first = density.terms(start)
    at = find_mode(density.terms, start, first=first, tolerance=1e-3).beta
    terms_at = terms(at)
    if not terms_at.value >= first.value - MAX_RELATIVE_LOSS * abs(first.value):  # or NaN
        at, terms_at = start, terms(start)
    distance = cholesky_and_decrement(terms_at)[1]
    for seed in seeds[1:]:
        mode, before = Surrogate(target(), at, terms_at).mode(), distance
        if mode is not None:
            shares, seen, terms_at_mode, left = looked(mode)
            if left <= CLOSE:
                return shares, seen
            if left < distance:
                at, terms_at, distance = mode.beta, terms_at_mode, left
        if not math.isfinite(distance):
            break
        if distance > 0.5 * before or mode is None:
            scale = LaplaceApproximation(family, at, factor_of_inverse(terms_at.precision))
            by_score = Shares.estimated(scale, pilot, dataset.scan.weight_total).probability
            drawn, total = draw_candidates(dataset, by_score, size, seed)
            pilot = select(drawn, size, total)
    return looked(find_mode(terms, at, first=terms_at, tolerance=0.01))[:2]
