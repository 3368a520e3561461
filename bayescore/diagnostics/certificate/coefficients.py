"""The table of a certificate: own and corrected figures of each coefficient, `CertificateData.coordinates`."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.diagnostics.certificate.estimates import Target
from bayescore.diagnostics.error_family import ErrorFamily
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray

SHOWN = (0.03, 0.97)  # ends of the intervals that reports show
_FOUND = (
    "mean_error_sd", "mean_error_sd_mcse", "mean_mcse_sd", "sd_error", "sd_error_mcse", "sd_mcse", "tail_k",
    "corrected_mean", "corrected_sd",
)  # fmt: skip


def table(
    posterior: Posterior, tail_k: FloatArray, heavy: NDArray[np.bool_], raw: list[ErrorFamily], full: Target
) -> pd.DataFrame:
    """Return `CertificateData.coordinates`; NaN for the moments of a coordinate that has none."""
    mean, sd = raw[0], raw[1]

    def fit(values: FloatArray) -> FloatArray:
        return np.where(heavy, np.nan, values)

    def filled(values: FloatArray) -> FloatArray:
        found = np.full(len(heavy), np.nan)
        found[~heavy] = values
        return found

    figures = _own(posterior) | {
        "mean_error_sd": filled(mean.error),
        "mean_error_sd_mcse": filled(mean.error_mcse),
        "mean_mcse_sd": filled(mean.noise),
        "sd_error": filled(np.expm1(sd.error)),
        "sd_error_mcse": filled(np.exp(sd.error) * sd.error_mcse),
        "sd_mcse": filled(sd.noise),
        "tail_k": np.where(heavy, tail_k, np.nan),
        "corrected_mean": fit(full.mean),
        "corrected_sd": fit(full.sd),
        **{_quantile_name(prob): full.quantile(prob)[0] for prob in SHOWN},
    }
    return pd.DataFrame(figures | {"mean": fit(figures["mean"])}, index=_index(posterior))


def bare_table(posterior: Posterior) -> pd.DataFrame:
    """Return the table of draws that were held to nothing: own figures, and NaN."""
    unknown = np.full(len(posterior.features), np.nan)
    figures = _own(posterior) | dict.fromkeys([*_FOUND, *map(_quantile_name, SHOWN)], unknown)
    return pd.DataFrame(figures, index=_index(posterior))


def _own(posterior: Posterior) -> dict[str, FloatArray]:
    draws = posterior.flat
    return {"mean": draws.mean(axis=0), "median": np.median(draws, axis=0), "sd": draws.std(axis=0, ddof=1)}


def _index(posterior: Posterior) -> pd.Index:
    return pd.Index(posterior.features, name="feature")


def _quantile_name(prob: float) -> str:
    return f"corrected_q{round(100 * prob):02d}"
