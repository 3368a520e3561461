"""`sample`: from weighted rows to draws of the posterior, as ArviZ's InferenceData.

The samplers that `sample` knows, and the one check that a sampler fits a likelihood and a prior.
"""

import json
import time
from collections.abc import Collection, Mapping
from functools import wraps
from typing import Any, cast

import numpy as np

from bayescore.compiled import F, available_cores
from bayescore.data.coreset import Coreset, family_or_own, feature_names
from bayescore.data.design import one_intercept
from bayescore.families.family import check_family
from bayescore.limits import MAX_RHAT, MIN_ESS_A_CHAIN
from bayescore.models.laplace import MOVED
from bayescore.numerics.chains import ess, rhat
from bayescore.priors import Prior
from bayescore.priors.groups import (
    arguments_of_fit,
    bends_prior,
    group_prior_for,
    group_prior_to_dict,
    prior_for,
    sd_prior_for,
)
from bayescore.priors.prior import names
from bayescore.samplers.adaptive import LANGEVIN, MIN_DRAWS_FOR_ESS
from bayescore.samplers.gibbs import GIBBS
from bayescore.samplers.groups import COLLAPSED, JOINT
from bayescore.samplers.mala import MALA
from bayescore.samplers.method import Request, Sampler
from bayescore.samplers.normal import NORMAL
from bayescore.samplers.nuts import NUTS
from bayescore.samplers.polya_gamma import POLYA_GAMMA
from bayescore.samplers.smooths import SMOOTHS
from bayescore.text import see
from bayescore.types import WeightedData
from bayescore.validation import RandomState, check_choice, check_integer, check_seed, one_seed, warn

AUTO = "auto"
# the general ones first: messages name them last
SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler for sampler in (NUTS, MALA, LANGEVIN, GIBBS, POLYA_GAMMA, COLLAPSED, JOINT, NORMAL, SMOOTHS)
}


def default_sampler(
    data: WeightedData, family: str, prior: Prior, options: Collection[str], *, sd_unknown: bool = False
) -> Sampler:
    """Return the sampler of `AUTO`: `LANGEVIN` where it fits the prior and the options, else NUTS.

    With groups the collapsed sampler where one intercept varies, else the joint one where it fits, else NUTS. Of
    numbers whose sd is unknown `NORMAL` where it fits, else one that draws the sd, too.
    """
    if prior.bends:
        return SMOOTHS if set(options) <= set(SMOOTHS.options) else NUTS
    if sd_unknown:
        fit_in = fits(NORMAL, family, prior) and (data.group is None or prior.gaussian)
        return NORMAL if fit_in and set(options) <= set(NORMAL.options) else NUTS
    if data.group is not None:
        if one_intercept(getattr(data, "groups", ())):
            return COLLAPSED
        return JOINT if fits(JOINT, family, prior) and set(options) <= set(JOINT.options) else NUTS
    return LANGEVIN if fits(LANGEVIN, family, prior) and set(options) <= set(LANGEVIN.options) else NUTS


def fits(sampler: Sampler, family: str, prior: Prior) -> bool:
    """Say whether `sampler` declares that it fits both."""
    families = sampler.families is None or family in sampler.families
    return families and sampler.fits_prior(prior)


def other_samplers(sampler: Sampler, family: str, prior: Prior, *, general: bool = False) -> str:
    """Return the names of other samplers that fit, for a message; if `general`, of those that fit every likelihood."""
    fitting = [
        repr(other.name)
        for other in reversed(SAMPLERS.values())
        if other not in (sampler, NORMAL)  # which is for one family, and its default
        and (other.grouped == sampler.grouped or (other.grouped is None and not sampler.grouped))
        and fits(other, family, prior)
        and not (general and other.families)
    ]
    return " or ".join([", ".join(fitting[:-1]), fitting[-1]] if len(fitting) > 1 else fitting)


def check_fit(sampler: Sampler, family: str, prior: Prior) -> None:
    """Raise ValueError unless `sampler` fits the likelihood and the prior; the message names those that do."""
    if fits(sampler, family, prior):
        return
    if sampler.families is not None and family not in sampler.families:
        reason = f"is for the {' and '.join(sampler.families)} family and this one is {family}"
    else:
        fitting = names(sampler.fits_prior) or "of formulas with s(x)"
        reason = f"fits the priors {fitting}, and this one is {prior}: it {sampler.because}"
    names_of_others = other_samplers(sampler, family, prior)
    remedy = f"sampler={names_of_others}" if names_of_others else "another prior"
    raise ValueError(f"sampler={sampler.name!r} {reason}; use {remedy}")


def check_smooth_sampler(sampler: Sampler, term: str) -> None:
    """Raise ValueError unless `sampler` draws the sds of smooth terms."""
    if sampler not in (SMOOTHS, NUTS):
        raise ValueError(
            f"sampler={sampler.name!r} knows nothing of the sd of {term}: leave sampler out, or use "
            f"sampler={SMOOTHS.name!r} or {NUTS.name!r}"
        )


def check_sd(sampler: Sampler, family: str, *, unknown: bool) -> None:
    """Raise ValueError if `sampler` would take the unknown sd of noise as given, or is for one and it is given."""
    if unknown and not sampler.draws_sd:
        raise ValueError(
            f"sampler={sampler.name!r} takes the sd of the noise as given, and this one is a parameter: leave sampler "
            f"out, or give the sd, family={family!r}"
        )
    if sampler is NORMAL and not unknown:
        raise ValueError(
            f"sampler={sampler.name!r} is for numbers whose sd is unknown, of a coreset built with family='normal', "
            f"and this family is {family!r}; leave sampler out"
        )


def check_rows(sampler: Sampler, data: WeightedData) -> None:
    """Raise ValueError if `sampler` would not know of the groups of rows, or needs some."""
    if sampler.grouped in (None, data.group is not None):
        return
    if sampler.grouped:
        raise ValueError(f"sampler={sampler.name!r} is for rows with groups, and core has none; leave sampler out")
    raise ValueError(
        f"core has groups, which sampler={sampler.name!r} knows nothing of: use sampler={COLLAPSED.name!r} "
        f"for (1 | g), else {JOINT.name!r} or {NUTS.name!r}"
    )


def sampler_lines() -> str:
    """Return one line for each sampler: its name, what it is, and what it fits."""
    rule = f"{LANGEVIN.name} where it fits the prior and the options"
    grouped = f"of rows with groups {COLLAPSED.name} for (1 | g), else {JOINT.name} where it fits, else {NUTS.name}"
    numbers = f"of numbers with an unknown sd {NORMAL.name} where it fits"
    lines = [f'* ``"{AUTO}"``: {rule}, else {NUTS.name}; {grouped}; {numbers}']
    for name, sampler in SAMPLERS.items():
        families = "any likelihood" if sampler.families is None else f"{', '.join(sampler.families)} likelihood"
        priors = (names(sampler.fits_prior) or "formulas with s(x)") if sampler.needs else "any prior"
        lines.append(f'* ``"{name}"``: {sampler.about}; {families}; {priors}')
    return "\n        ".join(lines)


def option_lines() -> str:
    """Return one line for each sampler: the options that it takes."""
    return "\n        ".join(f'* ``"{name}"``: {sampler.takes}' for name, sampler in SAMPLERS.items())


MIN_DRAWS_FOR_RHAT = 1000  # draws of a chain; with fewer R-hat is noisy


def _in_installed_arviz(function: F) -> F:
    """Return a function whose draws are as the installed ArviZ keeps them; `__wrapped__` does without it."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        from bayescore.compat import as_arviz  # slow to import

        return as_arviz(function(*arguments, **options))

    return cast(F, call)


@_in_installed_arviz
def sample(
    core: Any,
    family: str | None = None,
    prior: Prior | Mapping[str, Prior] | None = None,
    *,
    sampler: str = AUTO,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
    random_state: RandomState = None,
    **options: Any,
) -> Any:
    """Sample the posterior of a coreset, or of any weighted rows.

    Parameters
    ----------
    core : WeightedData or Fit
        A coreset or full data; or a fit, whose coreset is sampled, by default under the fit's priors.
    family : str, optional
        Name of a registered family, such as "logistic" or "cloglog"; by default the one that the coreset was built
        for. For a coreset built with "normal" the sd of the noise is a parameter; "normal(2.5)" gives it.
    prior : prior or dict of str to prior, optional
        Prior of the coefficients, of standardised columns if the coreset was built so. By name, ``{"Intercept":
        StudentT(3, 0, 2.5), "device": Normal(0, 1), "*": Laplace(0, 0.5)}``: of a coefficient, of all those of a term,
        and "*" of the others. The default is that of `fit`: Normal(0, 2.5 / sd) of each coefficient, the sd that of its
        column given the others, and Normal(0, 2.5) of the intercept at the columns' means.
    sampler : str, default "auto"
        The progress bar and the posterior's attribute ``sampler`` name the one that ran.

        {samplers}
    draws, tune, chains : int
        Draws kept of each chain, draws of warm-up before them, and chains. Where thinning is not fixed (``langevin``),
        warm-up counts transitions, and goes on where mixing is slow.
    cores : int, optional
        Chains that run at once; by default as many as there are cores, at most `chains`. Draws do not depend
        on it.
    random_seed, random_state : int, Generator, SeedSequence or None
        Seed, by either name; the one used is kept in the posterior's attributes.
    progressbar : bool
        Show progress.
    **options
        {options}

    Returns
    -------
    InferenceData
        What the installed `pm.sample` returns: posterior `beta` with dims (chain, draw, feature),
        sample_stats, and constant_data with X, y, weights and, where rows have one, offset. Of a coreset also `coef`,
        the same draws in units of the data's own columns (`Design.raw_coefficients`), where `beta` and its prior are of
        the columns as `standardize` scaled them; ``posterior.attrs["prior_scale"]`` says which these are. Of rows
        with groups also, for each factor g, `sigma_g`, the sd of its effects, and `u_g`, these effects with dims
        (chain, draw, g); where slopes vary by g, both have one more dim, and `rho_g` has the correlations (`model`).
        `sampler="collapsed"` adds `icc_g`, the correlation within a group, for families of a latent response. Of
        numbers whose sd is unknown also `sigma`, the sd of the noise, with the prior HalfStudentT(3, 2.5 sd(y)). The
        potentials of weighted rows have no log_likelihood group: `Fit.inference_data` has the pointwise one. Draws of a
        coreset that knows its `shortfall` are moved from the mode and curvature of its posterior to those of all rows'
        (``posterior.attrs["moved"]``); `lp` in sample_stats is the coreset's log density where they were drawn.

    Raises
    ------
    ValueError, TypeError
        For arguments that are out of range or do not fit the sampler, before sampling starts.

    Warns
    -----
    UserWarning
        If the chains have not mixed: an effective sample size below 100 a chain, or R-hat above 1.01.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> idata.posterior["beta"].dims
    ('chain', 'draw', 'feature')
    >>> idata.posterior.attrs["sampler"]
    'langevin'
    """
    check_choice(sampler, "sampler", (AUTO, *SAMPLERS))
    core, prior, group_prior = arguments_of_fit(core, prior, options.get("group_prior"))
    if group_prior is not None:
        options["group_prior"] = group_prior
    family_given = family
    resolved = check_family(family_or_own(core, family, "core"), rows=core)
    of_smooths = isinstance(core, Coreset) and bool(core.design.smooths)
    given_sds = options.pop("group_prior", None) if of_smooths else None
    family, chosen_prior = resolved.name, prior_for(prior, core, resolved, given_sds)
    if chosen_prior.closed_form:
        chosen_prior.parts(core.n_features)  # shapes
    if "group_prior" in options and core.group is None:
        raise ValueError(
            f"group_prior={options['group_prior']!r} is for effects of groups, and core has none; leave "
            "it out, or build with groups= or a term (1 | g)"
        )
    sd_prior = sd_prior_for(core) if family_given is None and getattr(core, "_sd_unknown", False) else None
    if resolved.quadratic and core.group is not None:
        options["group_prior"] = group_prior_for(options.get("group_prior"), core, resolved)
    check_integer(draws, "draws", low=1)
    check_integer(tune, "tune", low=0)
    check_integer(chains, "chains", low=1)
    if cores is not None:
        check_integer(cores, "cores", low=1)
    chosen = SAMPLERS.get(sampler) or default_sampler(
        core, family, chosen_prior, options, sd_unknown=sd_prior is not None
    )
    if chosen_prior.bends:
        check_smooth_sampler(chosen, chosen_prior.bends[0].term)
    check_sd(chosen, family, unknown=sd_prior is not None)
    checked = chosen.checked_options(options)
    check_rows(chosen, core)
    check_fit(chosen, family, chosen_prior)
    workers = min(chains, cores or available_cores())
    seed = check_seed(one_seed(random_state, random_seed), "random_seed")
    streams = np.random.SeedSequence(seed).spawn(chains + 1)
    begin = time.perf_counter()
    asked = core, family, chosen_prior, draws, tune, chains, workers, seed, streams, progressbar, checked, sd_prior
    request = Request(*asked)
    idata = chosen.draw(request)
    taken = time.perf_counter() - begin
    if not chosen.reports_itself:
        warn_unless_mixed(idata, other_samplers(chosen, family, chosen_prior, general=True))
    return _with_story(idata, request, chosen, taken)


sample_as_tree = sample.__wrapped__  # type: ignore[attr-defined]
sample.__doc__ = (sample.__doc__ or "").replace("{samplers}", sampler_lines()).replace("{options}", option_lines())


def _with_story(idata: Any, request: Request, sampler: Sampler, seconds: float) -> Any:
    """Add the data and what made the draws: enough to predict, report and repeat."""
    import xarray as xr  # slow to import, as ArviZ is, and the command line's help does without it

    from bayescore.compat import as_xarray
    from bayescore.samplers.posterior import (
        SMOOTH_SDS,
        creation_attrs,
        draws_digest,
        move_to_full_data,
        package_version,
    )

    data = request.data
    features = {"feature": list(feature_names(data))}
    constants: dict[str, Any] = {
        "X": (("row", "feature"), data.X),
        "y": ("row", data.y),
        "weights": ("row", data.weights),
    }
    if data.offset is not None:
        constants["offset"] = ("row", data.offset)
    if data.group is not None:
        constants["group"] = (("row", "grouping"), data.group)
    made = xr.Dataset(constants, coords={"row": data.index, **features}, attrs=creation_attrs())
    stored = idata.get("constant_data", xr.Dataset())  # a summary of effects whose draws are not kept
    idata["constant_data"] = made.merge(as_xarray(stored))
    story: dict[str, Any] = {
        "family": request.family,
        "prior": repr(request.prior),
        "sampler": sampler.name,
        "random_seed": str(request.seed),
        "sampling_time": seconds,
        "tuning_steps": request.tune,
        "bayescore_version": package_version(),
    }
    if not sampler.reports_itself:
        story |= creation_attrs()
        idata.sample_stats.attrs.update(creation_attrs(), sampling_time=seconds, tuning_steps=request.tune)
    idata.sample_stats.attrs["sampler"] = sampler.name
    if request.prior.bends:
        story[SMOOTH_SDS] = json.dumps([each.name for each in request.prior.bends])
        story["group_prior"] = json.dumps(group_prior_to_dict(bends_prior(request.prior)))
    if request.sd_prior is not None:
        effects_of = json.loads(idata.posterior.attrs.get("effects_of", "{}"))
        story["effects_of"] = json.dumps({**effects_of, "sigma": draws_digest(idata.posterior["sigma"].values)})
        story["sd_prior"] = json.dumps(group_prior_to_dict(request.sd_prior))
    if isinstance(data, Coreset):
        if data.group is None:
            story["moved"] = move_to_full_data(idata, data, request.family, request.prior)
        beta = idata.posterior["beta"]
        coef = beta.rename("coef").copy(data=np.array(data.design.raw_coefficients(beta.values)))
        first = coef.to_dataset().assign_attrs(idata.posterior.attrs)  # so that az.summary begins with them
        idata["posterior"] = first.merge(as_xarray(idata["posterior"]))
        scaled = data.design.center is not None
        story["prior_scale"] = "standardised columns" if scaled else "columns as they are"
        story |= {"coreset": json.dumps(data.summary()), "design": json.dumps(data.design.to_dict())}
        story["posterior_of"] = json.dumps(
            {
                "rows": data.rows_digest,
                "prior": request.prior.to_dict(),
                "family": request.family,
                "draws": draws_digest(beta.values),
                "moved": story.get("moved") == MOVED,
            }
        )
    idata.posterior.attrs.update(story)
    return idata


def warn_unless_mixed(idata: Any, others: str) -> None:
    """Warn where the smallest effective sample size or the largest R-hat says that the chains have not mixed.

    Both are rank-normalised, of beta and of log sigma where there are groups. `others` names the samplers to try
    instead.
    """
    from bayescore.samplers.posterior import coefficients  # slow to import

    beta, features = coefficients(idata, "the posterior")
    posterior = idata["posterior"]
    for name in (str(name) for name in posterior.data_vars if str(name).startswith("sigma_") or name == "sigma"):
        sigma = posterior[name].transpose("chain", "draw", ...).values
        sigma = sigma.reshape(*sigma.shape[:2], -1)
        with np.errstate(divide="ignore"):
            beta = np.concatenate([beta, np.log(sigma)], axis=2)
        features = (*features, *[f"log {name}"] * sigma.shape[2])
    chains, draws, _ = beta.shape
    if draws < MIN_DRAWS_FOR_ESS:
        return
    sizes = ess(beta, "bulk")
    many = chains > 1 and draws >= MIN_DRAWS_FOR_RHAT
    ratios = rhat(beta) if many else np.ones(len(features))
    troubles = []
    if not sizes.min() >= chains * min(MIN_ESS_A_CHAIN, draws / 10):
        name = features[np.argmin(sizes)]
        troubles.append(f"the effective sample size of {name} is {sizes.min():.0f} of {chains * draws} draws")
    if not ratios.max() <= MAX_RHAT:
        troubles.append(f"R-hat of {features[np.argmax(ratios)]} is {ratios.max():.3g}")
    if troubles:
        other = f", or sampler={others}" if others else ""
        warn(
            f"the chains have not mixed, {' and '.join(troubles)}: take more draws, a larger thin{other}"
            f"{see('how-to/not-certified.md')}"
        )
