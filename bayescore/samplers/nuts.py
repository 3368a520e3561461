"""NUTS through PyMC: the weighted model of `models.graph`, sampled by `pm.sample`.

For every likelihood and prior, hierarchies included. PyMC takes seconds to import, and is so only when drawing.
"""

import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from bayescore.models.priors import is_smooth
from bayescore.samplers.method import Request, Sampler

_OF_THE_STEP = ("target_accept", "max_treedepth")
_OWN_START = {"step", "init", "initvals"}  # who gives one of these chooses starts and mass matrix


def _in_c() -> AbstractContextManager[Any]:
    """Return a context in which PyTensor compiles by C, where it has a compiler and nobody has chosen a linker.

    PyTensor 3 would take numba: a minute of compiling the first time in place of ten seconds, and gradients of a
    coreset in two thirds of the time, less than a second in 4 x 1000 draws (`python -m benchmarks cold_start`).
    """
    from pytensor.configdefaults import config

    return config.change_flags(linker="cvm") if config.linker == "auto" and config.cxx else nullcontext()


@dataclass(frozen=True, kw_only=True)
class PymcSampler(Sampler):
    """A sampler that is `pm.sample`; it takes all options that `pm.sample` takes, and warns of poor mixing itself."""

    @property
    def takes(self) -> str:
        """Its options in words."""
        return 'anything that `pm.sample` takes, such as ``target_accept=0.95`` or ``nuts_sampler="nutpie"``'

    def checked_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options given, once nutpie is there if it is asked for."""
        if given.get("nuts_sampler") == "nutpie" and importlib.util.find_spec("nutpie") is None:
            raise ImportError("nuts_sampler='nutpie' needs the package nutpie: pip install 'bayescore[nutpie]'")
        return dict(given)

    def draw(self, request: Request) -> Any:
        """Return what the installed `pm.sample` returns, statistics under PyMC's names whatever its `nuts_sampler`.

        Unless one is asked for it is PyMC's own: nutpie, which PyMC 6 prefers where it is installed, takes neither
        starts nor mass matrix.

        Where Laplace's approximation tells the posterior's width, chains start from it and it serves as the (dense)
        mass matrix: PyMC's own jitter of 1 can be hundreds of posterior standard deviations where the weights sum to
        millions. Model and step are built afresh for each call, as a step that has adapted in other processes does not
        adapt again.
        """
        import pymc as pm

        from bayescore.compat import with_pymc_names
        from bayescore.models.graph import regression_model

        options = dict(request.options)
        own_start = bool(options.keys() & _OWN_START) or options.get("nuts_sampler", "pymc") != "pymc"
        if request.prior.family is None and not own_start:
            options.setdefault("target_accept", 0.95)  # hierarchies such as the horseshoe's have funnels
        options.setdefault("nuts_sampler", "pymc")
        with _in_c(), regression_model(request.data, request.likelihood, request.prior):
            if is_smooth(request.prior) and not own_start:
                starts, spread = request.starts(request.target())
                tuning = {name: options.pop(name) for name in _OF_THE_STEP if name in options}
                options["step"] = pm.NUTS(scaling=spread @ spread.T, is_cov=True, **tuning)
                options["initvals"] = [{"beta": start} for start in starts]
            idata = pm.sample(
                draws=request.draws,
                tune=request.tune,
                chains=request.chains,
                cores=request.cores,
                random_seed=request.seed,
                progressbar=request.progressbar,
                **options,
            )
        return with_pymc_names(idata)


NUTS = PymcSampler(name="nuts", about="the No-U-Turn sampler through `pm.sample`", reports_itself=True)
