"""Certificates of a posterior that was updated: new rows are read, earlier ones stand by what is known of them."""

from dataclasses import replace
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.joined import joined
from bayescore.data.passes.threads import one_blas_thread
from bayescore.diagnostics.certificate.certify import Certificate, certified_by
from bayescore.diagnostics.certificate.strategy import weigher_of
from bayescore.samplers.inference_data import read_posterior


def certify_update(idata: Any, core: Coreset, before: Coreset, new: Dataset, *, max_draws: int) -> Certificate:
    """Check the posterior of a coreset of earlier and of `new` rows, without reading the earlier ones.

    The rows of `before`, their coreset, and its shortfall stand for them; passes are over these and the new rows. There
    is no leave-one-out density, as rows of a coreset are not to be predicted.
    """
    posterior = read_posterior(idata, "idata")
    weight = float(before.weights.sum()) + core.weight_total - before.weight_total
    with one_blas_thread():
        carried = before.shortfall if before.family == posterior.attrs.get("family", core.family) else None
        judged = replace(core, weight_total=weight)
        weigher = weigher_of(idata, posterior, judged, joined(before, new), carried=carried)
        return certified_by(idata, posterior, weigher, max_draws, elpd=False)
