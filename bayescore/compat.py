"""The only file that knows which ArviZ runs: 0.23 (InferenceData, with PyMC 5) or 1 (xarray's DataTree, with PyMC 6).

It can go when ArviZ 0.23 is no longer supported, which is when Python 3.11 is not: ArviZ 1 needs 3.12. The rest of
bayescore, and code of users that is to run on both, reads ``idata.posterior["beta"]``, asks ``"posterior" in idata``
and adds a group by ``idata["constant_data"] = dataset``, all of which mean the same on both.
"""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from xarray.backends import H5NetCDFStore

from bayescore.limits import MAX_K
from bayescore.types import FloatArray

with warnings.catch_warnings():
    # once a day 0.23 announces its successor, which this file knows
    warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
    import arviz as az

ARVIZ_1 = int(version("arviz").split(".")[0]) >= 1
POSTERIOR_TYPE = xr.DataTree if ARVIZ_1 else az.InferenceData
# nutpie's names of what PyMC's NUTS reports too
_NUTPIE = {
    "logp": "lp",
    "mean_tree_accept": "acceptance_rate",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
}


def is_inference_data(value: object) -> bool:
    """Whether `value` is what the installed ArviZ keeps posteriors in."""
    return isinstance(value, POSTERIOR_TYPE)


def inference_data(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """Return groups of arrays by name, each of shape (chain, draw, ...), as the installed ArviZ's InferenceData."""
    about: dict[str, Any] = {"coords": {name: list(values) for name, values in (coords or {}).items()}, "dims": dims}
    return az.from_dict(groups, **about) if ARVIZ_1 else az.from_dict(**{**about, **groups})


def read_inference_data(path: str, check_size: Callable[[int], object] = int) -> Any:
    """Return the groups of a netCDF file, in memory, whichever ArviZ wrote it; the file is closed.

    `check_size` is called with the bytes that they take before they are read, and may raise.
    """
    idata = az.from_netcdf(path, engine="h5netcdf")
    try:
        groups = [as_xarray(idata[name]) for name in (idata.children if ARVIZ_1 else idata.groups())]
        check_size(sum(group.nbytes for group in groups))
        return idata.load()  # values are read when they are asked for, when the file may be another
    finally:
        idata.close()


def write_inference_data(idata: Any, path: str) -> None:
    """Write all groups to a netCDF file that either ArviZ reads.

    The file is made in memory: HDF5 that meets a full disk cannot close its file, and ends the process later.
    """
    image = io.BytesIO()
    with h5netcdf.File(image, "w") as file:
        for name, value in idata.attrs.items():
            file.attrs[name] = value
        for name in idata.children if ARVIZ_1 else idata.groups():
            group = as_xarray(idata[name])
            packed = {
                variable: {"zlib": True} for variable, data in group.variables.items() if data.dtype.kind in "biuf"
            }
            group.dump_to_store(H5NetCDFStore(file, group=name, mode="a"), encoding=packed)
    Path(path).write_bytes(image.getbuffer())


def with_groups(idata: Any, groups: Mapping[str, xr.Dataset]) -> Any:
    """Return the same draws with groups added or replaced; what stays is not copied, and `idata` stays as it is."""
    if ARVIZ_1:
        copy = idata.copy(deep=False)
    else:
        copy = az.InferenceData(attrs=dict(idata.attrs), **{name: idata[name] for name in idata.groups()})
    for name, group in groups.items():
        copy[name] = group
    return copy


def as_xarray(group: Any) -> xr.Dataset:
    """Return a group of draws as a Dataset, whatever the installed ArviZ keeps it as."""
    return group.to_dataset() if ARVIZ_1 and isinstance(group, xr.DataTree) else group


def with_pymc_names(idata: Any) -> Any:
    """Return a posterior with nutpie's statistics under the names that PyMC's NUTS gives them."""
    if "sample_stats" not in idata:
        return idata
    stats = as_xarray(idata["sample_stats"])
    names = {old: new for old, new in _NUTPIE.items() if old in stats and new not in stats}
    if names:
        idata["sample_stats"] = stats.rename(names)
    return idata


def elpd_data(values: FloatArray, k: FloatArray, n_parameters: float, n_draws: int) -> Any:
    """Return the log predictive density of each row left out, and k-hat of its weights, as ArviZ's `ELPDData`."""
    pointwise, shapes = (xr.DataArray(each, dims="row", coords={"row": np.arange(len(k))}) for each in (values, k))
    good_k = min(1.0 - 1.0 / np.log10(n_draws), MAX_K)
    names = ("elpd", "p", "elpd_i") if ARVIZ_1 else ("elpd_loo", "p_loo", "loo_i")
    about = {
        names[0]: float(values.sum()),
        "se": float(np.sqrt(len(k) * values.var(ddof=int(ARVIZ_1)))),
        names[1]: n_parameters,
        "n_samples": n_draws,
        "n_data_points": len(k),
        "warning": bool((k > good_k).any()),
        names[2]: pointwise.rename(names[2]),
        "pareto_k": shapes.rename("pareto_shape"),
        "scale": "log",
        "good_k": good_k,
    }
    if ARVIZ_1:
        stats = import_module("arviz_stats")  # 1.0 has one class for all kinds
        return stats.ELPDDataLOO(**about) if hasattr(stats, "ELPDDataLOO") else stats.ELPDData(kind="loo", **about)
    return az.ELPDData(data=list(about.values()), index=list(about))
