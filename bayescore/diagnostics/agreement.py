r"""Was a certificate right? What it predicted, and whether a reference agrees.

For each coefficient the predicted and the measured error of the mean, and

.. math:: z = (\mathrm{predicted} - \mathrm{measured}) / \mathrm{se},

se their two standard errors together; they agree where no |z| exceeds the Sidak quantile of all coefficients.
Use it where a reference was sampled after all.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from bayescore.diagnostics.errors import sidak_quantile
from bayescore.diagnostics.results import CertificateData, Level, Verdict


def beside_reference(certificate: CertificateData, verdict: Verdict) -> CertificateData:
    """Return the certificate as a comparison shows it: a reference that shows a large error overrules it."""
    if certificate.level != Level.CERTIFIED or verdict.level != Level.DIFFERS:
        return certificate
    text = f"Certified without the reference, which shows a larger error: see the verdict. {certificate.text}"
    return replace(certificate, level=Level.NOT_CERTIFIED, text=text, mean_bound=math.nan)


def predicted_error(certificate: CertificateData) -> tuple[float, float]:
    """Return the largest predicted error of a mean, in sds, and its Monte Carlo standard error.

    Largest when two standard errors are added.
    """
    errors = certificate.coordinates[["mean_error_sd", "mean_error_sd_mcse"]].abs().dropna().to_numpy()
    if not len(errors):  # no coordinate has a mean
        return math.nan, math.nan
    error, mcse = errors[int(np.argmax(errors @ [1.0, 2.0]))]
    return float(error), float(mcse)


def agreement(certificate: CertificateData, measured: pd.DataFrame) -> bool | None:
    """Return whether the predicted errors of the means are the measured ones but for Monte Carlo error.

    Exact predictions disagree with probability `limits.FAMILYWISE_ALPHA`. None where the certificate is not to be
    trusted. `measured` are the candidate's rows of `Comparison.coordinates`, its errors in sds of the reference.
    """
    if not certificate.trusted:
        return None
    table = certificate.coordinates.loc[measured["feature"]]
    unit = table["sd"].to_numpy() / measured["reference_sd"].to_numpy()
    told = table["mean_error_sd"].notna().to_numpy()  # a coordinate without a mean has no error of it
    gap = unit * table["mean_error_sd"].to_numpy() - measured["mean_error_sd"].to_numpy()
    spread = np.hypot(unit * table["mean_error_sd_mcse"].to_numpy(), measured["mean_error_sd_mcse"].to_numpy())
    return bool((np.abs(gap) <= sidak_quantile(len(table)) * spread)[told].all())
