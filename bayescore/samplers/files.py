"""Posterior files: netCDF, written whole or not at all, and read with a plain word where they are not one."""

from pathlib import Path
from typing import Any

from bayescore.compat import read_inference_data, write_inference_data
from bayescore.files import check_path, whole_file
from bayescore.samplers.inference_data import read_posterior
from bayescore.validation import DataError


def write_posterior(idata: Any, path: str | Path) -> None:
    """Write a posterior to a netCDF file that ArviZ reads; an earlier file stays until the new one is whole."""
    with whole_file(path) as partial:
        write_inference_data(idata, str(partial))


def check_whole(idata: Any, chains: int, draws: int) -> None:
    """Raise KeyboardInterrupt if draws are missing: `pm.sample` takes Ctrl-C for "enough" and returns what it has."""
    if (idata.posterior.sizes["chain"], idata.posterior.sizes["draw"]) != (chains, draws):
        raise KeyboardInterrupt


def load_posterior(path: str | Path) -> Any:
    """Read a posterior file; refuse one whose posterior `read_posterior` does not take."""
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r}: no such file")
    try:
        idata = read_inference_data(str(source))
    except Exception as error:  # the readers below ArviZ raise many kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{str(source)!r} is not a posterior file ({reason}); write one with bayescore sample"
        ) from None
    read_posterior(idata, repr(str(source)))
    return idata
