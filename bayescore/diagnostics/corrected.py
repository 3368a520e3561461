"""Corrected draws as InferenceData: every chain and draw moved, and resampled by the weights where these matter.

Resampling is systematic within each chain (Carpenter, Clifford and Fearnhead 1999): a draw of weight w, relative to the
mean, is kept floor(w) or ceil(w) times, in its place in the chain, so that copies count as what they are, correlated
draws, in effective sample sizes.
"""

from typing import Any

import numpy as np

from bayescore.compat import inference_data
from bayescore.diagnostics.correction import Weighted
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray, IntArray


def systematic(weights: FloatArray) -> IntArray:
    """Return n positions, in order, each as often as its weight says; weights of shape (n,).

    >>> systematic(np.array([1.0, 2.0, 0.0, 1.0])).tolist()
    [0, 1, 1, 3]
    """
    edges = np.cumsum(weights)
    points = (np.arange(len(weights)) + 0.5) / len(weights) * edges[-1]
    return np.asarray(np.searchsorted(edges, points), dtype=np.int64)


def corrected_idata(idata: Any, posterior: Posterior, weighted: Weighted, *, resampled: bool) -> Any:
    """Return the corrected draws: the posterior's variables, its attributes and its constant data.

    Other variables than `beta` (hyperparameters) stay as they are, but are resampled with it.
    """
    chains, n, _ = posterior.draws.shape
    kept = np.tile(np.arange(n), (chains, 1))
    if resampled:
        kept = np.stack([systematic(own) for own in weighted.weights.reshape(chains, n)])
    of_chain = np.arange(chains)[:, None]
    source = idata["posterior"]
    values, dims = {}, {}
    for name in source.data_vars:
        each = source[name]
        array = weighted.move(posterior.draws) if name == "beta" else each.values
        values[str(name)] = array[of_chain, kept]
        dims[str(name)] = [str(dim) for dim in each.dims[2:]]
    coords = {str(name): source[name].values for name in source.coords if source[name].ndim == 1}
    made = inference_data({"posterior": values}, coords=coords, dims=dims)
    if "constant_data" in idata:
        constants = idata["constant_data"]
        made["constant_data"] = constants.to_dataset() if hasattr(constants, "to_dataset") else constants
    how = "moved to the full posterior's mode and Hessian" if weighted.move.map is not None else "not moved"
    if resampled:
        how += f", resampled by importance weights (effective {weighted.ess:.0f} of {len(weighted.weights)})"
    attrs = {key: value for key, value in posterior.attrs.items() if key != "posterior_of"}
    made.posterior.attrs.update(attrs, corrected=how)
    return made
