"""Corrected draws as InferenceData: every chain and draw moved, and resampled by the weights where these matter.

Resampling is systematic over all chains (Carpenter, Clifford and Fearnhead 1999): a draw of weight w, relative to the
mean, is kept floor(w) or ceil(w) times, in its place, and the draws kept are dealt out to the chains in that order, so
that copies count as what they are, correlated draws, in effective sample sizes.
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


def corrected_idata(idata: Any, posterior: Posterior, weighted: Weighted, kept: IntArray | None) -> Any:
    """Return the corrected draws: the posterior's variables, its attributes and its constant data.

    `kept`, shape (chain * draw,), are the positions that resampling keeps; None for all as they are. `coef` follows
    from `beta`; other variables (hyperparameters) are not moved, but are resampled with it.
    """
    source, design = idata["posterior"], posterior.design
    values, dims = {}, {}
    moved = {"beta": weighted.moved(posterior.draws)}
    if design is not None:
        moved["coef"] = design.raw_coefficients(moved["beta"])
    for name in source.data_vars:
        each = source[name].transpose("chain", "draw", ...)
        array = moved.get(str(name), each.values)
        if kept is not None:
            array = array.reshape(-1, *array.shape[2:])[kept].reshape(array.shape)
        values[str(name)] = array
        dims[str(name)] = [str(dim) for dim in each.dims[2:]]
    coords = {str(name): source[name].values for name in source.coords if source[name].ndim == 1}
    made = inference_data({"posterior": values}, coords=coords, dims=dims)
    if "constant_data" in idata:
        constants = idata["constant_data"]
        made["constant_data"] = constants.to_dataset() if hasattr(constants, "to_dataset") else constants
    how = "moved to the full posterior's mode and Hessian" if weighted.transport is not None else "not moved"
    if kept is not None:
        how += f", resampled by importance weights (effective {weighted.ess:.0f} of {len(weighted.weights)})"
    attrs = {key: value for key, value in posterior.attrs.items() if key != "posterior_of"}
    made.posterior.attrs.update(attrs, corrected=how)
    return made
