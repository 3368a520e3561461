"""Simulation-based calibration of the whole way: data, coreset, draws, correction.

`ranks` tests whether ranks are uniform, `way` is one replication, `prior_sbc` draws coefficients and data from the
prior, `posterior_sbc` from the posterior of real data.
"""

from collections.abc import Callable

from benchmarks.sbc import posterior_sbc, prior_sbc

COMMANDS: dict[str, Callable[..., None]] = {"prior_sbc": prior_sbc.main, "posterior_sbc": posterior_sbc.main}
