"""Systems of `rival_posteriors`, by family: each a function of the rows that returns the work to be timed.

What a function does before it returns, its imports, is not timed. The first setting of a system is the documented one
where there is any, the others are the grid of which the best is shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.rivals.rival_systems import coresets, modes, normals, nuts, subsampling
from benchmarks.rivals.rival_systems.found import Found, Rows


@dataclass(frozen=True)
class System:
    """A system's name and its work by setting, the first of which is documented or, like the others, of a grid."""

    label: str
    settings: Mapping[str, Callable[[Rows], Callable[[], Found]]]
    documented: bool = True


SYSTEMS = {
    "bayescore": System("bayescore", coresets.DEFAULT),
    "condensed": System("bayescore, condensed", coresets.CONDENSED),
    "laplace": System("Laplace, all rows", normals.LAPLACE),
    "weighed": System("Laplace, weighed by all rows", normals.WEIGHED),
    "pymc": System("PyMC NUTS, all rows", nuts.PYMC),
    "nutpie": System("nutpie, all rows", nuts.NUTPIE),
    "numpyro": System("NumPyro NUTS, all rows", nuts.NUMPYRO),
    "pathfinder": System("Pathfinder with PSIS", normals.PATHFINDER),
    "advi": System("PyMC ADVI, minibatches", normals.ADVI),
    "svi": System("NumPyro SVI, minibatches", normals.SVI),
    "duckreg": System("duckreg, maximum likelihood", normals.DUCKREG),
    "hmcecs": System("NumPyro HMCECS", subsampling.HMCECS),
    "sgld": System("SGLD, control variates", subsampling.SGLD, documented=False),
    "quasi_newton": System("quasi-Newton coreset", coresets.QUASI_NEWTON),
    "giga": System("GIGA coreset", coresets.GIGA),
    "coreset_mcmc": System("coreset MCMC", coresets.CORESET_MCMC),
    "uniform": System("uniform subsample", coresets.UNIFORM),
    "sklearn": System("scikit-learn, mode", modes.SKLEARN),
    "glum": System("glum, mode", modes.GLUM),
}
