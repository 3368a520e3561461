"""Which strategy weighs the draws of a kind of model, see `weigh`."""

from functools import partial
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import one_intercept
from bayescore.data.shortfall import Shortfall
from bayescore.diagnostics.certificate.joint import Joint
from bayescore.diagnostics.certificate.marginal import Marginal
from bayescore.diagnostics.certificate.moved import Moved
from bayescore.diagnostics.certificate.weigh import Weigher
from bayescore.diagnostics.certificate.whole import Whole
from bayescore.models.families import Family, check_family
from bayescore.models.prior_ratio import OfModel
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.inference_data import Posterior


def weigher_of(
    idata: Any,
    posterior: Posterior,
    core: Coreset,
    dataset: Dataset,
    *,
    model: Any = None,
    carried: Shortfall | None = None,
) -> Weigher:
    """Return the strategy for the kind of model."""
    if core.group is None:
        family = check_family(posterior.attrs.get("family", core.family))
        prior = prior_from_dict(posterior.story["prior"]) if posterior.story else None
        given = None
        if model is not None or (prior is not None and not prior.closed_form):
            given = partial(_of_model, model, idata, core, (family, prior))
        return Moved(posterior, core, dataset, family, given, carried)
    if model is not None:
        raise ValueError("model= of a coreset with groups cannot be certified; certify the draws of sample(core)")
    of_groups = Marginal if one_intercept(core.groups) else Joint
    return of_groups(idata, posterior, core, dataset)


def strategy(core: Coreset, weigher: Weigher, posterior: Posterior, family: Family) -> Weigher:
    """Return the strategy for draws of all rows, where the coreset has them or their sums."""
    return Whole(weigher, posterior, core, family) if core.lossless else weigher


def _of_model(model: Any, idata: Any, core: Coreset, drawn: tuple[Family, Prior | None]) -> OfModel:
    """Return the prior that a user's model gives to its draws, or that of `sample` where it has no closed form."""
    family, prior = drawn
    if model is None:
        from bayescore.models.pymc_model import model as model_of  # PyMC takes seconds to import

        model = model_of(core, prior, family=family)
    source = idata["posterior"]
    ordered = {str(name): source[name].transpose("chain", "draw", ...) for name in source.data_vars}
    draws = {name: each.values.reshape(-1, *each.shape[2:]) for name, each in ordered.items()}
    found = OfModel(model, draws, core, family)
    found.check()
    return found
