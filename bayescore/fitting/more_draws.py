"""How many draws `fit` takes next where the certificate asks for more, and the most that it takes.

Of models with groups the certificate weighs some draws, evenly spaced, and estimates from these how many would do. That
holds for draws as far apart: those between them depend on their neighbours, and say less. So chains get longer by as
much as the weighed draws become more.
"""

import math
from typing import NamedTuple

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.health import Need, Remedy

SPARE = 1.5  # more than the certificate's estimate, which has an error of its own
MOST_TIMES = 20  # draws of a chain over those of the first: chains that need more mix badly
MOST_BYTES = 1 << 30  # of draws, which the certificate copies: a quarter of what samplers refuse


class Length(NamedTuple):
    """Draws of a chain, its warm-up, and how many draws of all chains are weighed."""

    draws: int
    tune: int
    max_draws: int

    def longer(self, than: "Length") -> bool:
        """Whether new draws are needed."""
        return self[:2] != than[:2]


def most_draws(core: Coreset, chains: int, first: int) -> int:
    """Return the most draws that a chain may have, `first` being those of the first try."""
    effects = sum(len(own) * len(own.effects) for own in core.groups)
    fit_in = MOST_BYTES // (8 * chains * (core.n_features + effects))
    return max(min(MOST_TIMES * first, fit_in), first)


def next_lengths(remedy: Remedy, now: Length, n_weighed: int, chains: int, most: int) -> list[Length]:
    """Return what may be done next, best first; empty where nothing is left.

    >>> now = Length(1000, 1000, 500)
    >>> next_lengths(Remedy(Need.DRAWS, max_draws=1500), now, 500, 4, 20_000)
    [Length(draws=4500, tune=1000, max_draws=2300), Length(draws=1000, tune=1000, max_draws=4000)]
    """
    found, n_all = [], chains * now.draws
    if remedy.max_draws:
        times = min(SPARE * remedy.max_draws / n_weighed, most / now.draws)
        if times > 1.0:
            found.append(Length(min(_hundreds(times * now.draws), most), now.tune, _hundreds(times * n_weighed)))
        found.append(now._replace(max_draws=max(n_all, now.max_draws)))
    else:
        draws = max(min(remedy.draws, most), now.draws)
        weighed = now.max_draws if now.max_draws < n_all else max(chains * draws, now.max_draws)  # all, as before
        tune = max(remedy.tune, 2 * now.tune if remedy.need is Need.ORIGIN and not remedy.tune else now.tune)
        found.append(Length(draws, tune, weighed))
    return [each for each in found if each != now]


def first_within(limit: float, left: list[Length], now: Length, taken: float) -> tuple[float, Length]:
    """Return the first that takes `limit` seconds or less of sampling, else the first, by what the last one took."""
    pace = taken / (now.draws + now.tune)
    timed = [(pace * (each.draws + each.tune) if each.longer(now) else 0.0, each) for each in left]
    return next((one for one in timed if one[0] <= limit), timed[0])


def none_left(remedy: Remedy, now: Length, most: int) -> str:
    """Return why nothing is left to do, and what a user may."""
    asked = f"{remedy.max_draws:,} draws to weigh" if remedy.max_draws > now.max_draws else ""
    if remedy.draws > now.draws:
        asked = f"{remedy.draws:,} draws a chain"
    if not asked:
        return "the certificate asks for no more than was done"
    return (
        f"the certificate asks for {asked}, and fit takes at most {most:,} a chain: chains that need "
        "more hardly move. Give a prior that says more, or leave out terms that the rows tell little of"
    )


def _hundreds(n: float) -> int:
    return math.ceil(n / 100.0) * 100
