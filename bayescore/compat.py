"""The only file that knows which ArviZ runs: 0.23 (InferenceData, with PyMC 5) or 1 (xarray's DataTree, with PyMC 6).

bayescore makes trees, and `as_arviz` what the installed ArviZ has for users: 0.23 takes seconds to import, and a fit
does without it. The rest of bayescore, and code of users that is to run on both, reads ``idata.posterior["beta"]``,
asks ``"posterior" in idata`` and adds a group by ``idata["constant_data"] = dataset``, which mean the same of both.

It can go when ArviZ 0.23 is no longer supported, which is when Python 3.11 is not: ArviZ 1 needs 3.12.
"""

import io
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bayescore.limits import MAX_K
from bayescore.types import FloatArray

ARVIZ_1 = int(version("arviz").split(".")[0]) >= 1
# nutpie's names of what PyMC's NUTS reports too
_NUTPIE = {
    "logp": "lp",
    "mean_tree_accept": "acceptance_rate",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
}


def _arviz() -> Any:
    """Return ArviZ 0.23, without its announcement, once a day, of the successor that this file knows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
        return import_module("arviz")


def is_inference_data(value: object) -> bool:
    """Whether `value` is what an ArviZ keeps posteriors in; an ArviZ that nobody imported has made none."""
    of_0_23 = () if ARVIZ_1 else getattr(sys.modules.get("arviz"), "InferenceData", ())  # ArviZ 1 warns of the name
    return isinstance(value, (xr.DataTree, of_0_23))


def inference_data(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> xr.DataTree:
    """Return groups of arrays by name with ArviZ's dimensions: chain, draw, ...; groups of data have no draws."""
    named, made = {dim: list(values) for dim, values in (coords or {}).items()}, {}
    for group, arrays in groups.items():
        variables, drawn = {}, [] if group.endswith("_data") else ["chain", "draw"]
        for name, values in arrays.items():
            n_more = np.ndim(values) - len(drawn)
            more = (dims or {}).get(name) or [f"{name}_dim_{i}" for i in range(n_more)]
            variables[name] = ([*drawn, *more[:n_more]], np.asarray(values))
        data = xr.Dataset(variables)
        made[group] = data.assign_coords({str(dim): named.get(str(dim), range(n)) for dim, n in data.sizes.items()})
    return xr.DataTree.from_dict(made)


def as_arviz(draws: Any) -> Any:
    """Return draws as the installed ArviZ keeps them."""
    if ARVIZ_1 or not isinstance(draws, xr.DataTree):
        return draws
    return with_groups(
        _arviz().InferenceData(attrs=dict(draws.attrs)), {n: as_xarray(draws[n]) for n in draws.children}
    )


class AsArviz:
    """A dataclass's field of draws, None by default: made what the installed ArviZ has when it is first asked for."""

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, _: type) -> Any:
        if instance is None:
            return None
        vars(instance)[self.name] = as_arviz(vars(instance)[self.name])
        return vars(instance)[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


def read_inference_data(path: str, check_size: Callable[[int], object] = int) -> xr.DataTree:
    """Return the groups of a netCDF file, in memory, whichever ArviZ wrote it; the file is closed.

    `check_size` is called with the bytes that they take before they are read, and may raise.
    """
    with xr.open_datatree(path, engine="h5netcdf") as groups:
        check_size(sum(group.nbytes for group in groups.subtree))
        return groups.load()  # values are read when they are asked for, when the file may be another


def write_inference_data(idata: Any, path: str) -> None:
    """Write all groups to a netCDF file that either ArviZ reads.

    The file is made in memory: HDF5 that meets a full disk cannot close its file, and ends the process later.
    """
    import h5netcdf  # slow to import, as its store is
    from xarray.backends import H5NetCDFStore

    image = io.BytesIO()
    with h5netcdf.File(image, "w") as file:
        for name, value in idata.attrs.items():
            file.attrs[name] = value
        for name in _names(idata):
            group = as_xarray(idata[name])
            packed = {
                variable: {"zlib": True} for variable, data in group.variables.items() if data.dtype.kind in "biuf"
            }
            group.dump_to_store(H5NetCDFStore(file, group=name, mode="a"), encoding=packed)
    Path(path).write_bytes(image.getbuffer())


def with_groups(idata: Any, groups: Mapping[str, xr.Dataset]) -> Any:
    """Return the same draws with groups added or replaced; what stays is not copied, and `idata` stays as it is."""
    if isinstance(idata, xr.DataTree):
        copy = idata.copy(deep=False)
    else:
        kept = {name: idata[name] for name in _names(idata) if name not in groups}
        copy = _arviz().InferenceData(attrs=dict(idata.attrs), **kept)
    for name, group in groups.items():
        copy[name] = group
    return copy


def _names(idata: Any) -> list[str]:
    """Return the names of the groups of draws."""
    return list(idata.children if isinstance(idata, xr.DataTree) else idata.groups())


def as_xarray(group: Any) -> xr.Dataset:
    """Return a group of draws as a Dataset, whatever it is kept as."""
    return group.to_dataset() if isinstance(group, xr.DataTree) else group


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
    return _arviz().ELPDData(data=list(about.values()), index=list(about))
