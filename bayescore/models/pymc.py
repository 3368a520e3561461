r"""Whole PyMC models of weighted rows, with effects of groups parametrised as NUTS samples them best.

The weighted log-likelihood as one PyMC potential, for any model; `pymc_model` has whole models.

Effects of one of several grouping factors, or of several columns, in a PyMC model, in coordinates that NUTS likes.

The effects of a level, u_g in R^q, are N(0, S), S = diag(sigma) R diag(sigma) with an LKJ prior of R. Let the rows of a
level say r_g(beta) . u - u' H_g u / 2 of its effects, S = F F' and L L' = I + F' H_g F. NUTS moves z_g, where

.. math:: u_g = F w_g, \qquad w_g = L^{-\prime} (L^{-1} F' r_g(\beta) + z_g).

z is nearly N(0, I) a posteriori and hardly depends on beta and S: centred where rows say much, non-centred where the
prior does or an sd is near 0 (Papaspiliopoulos, Roberts and Skold 2007). With the Jacobian, |F| / |L|, the posterior is
exact whatever r and H are. They come from the joint mode of beta and all effects (`models.groups.joint_mode`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from scipy import linalg

from bayescore.data.coreset import Coreset, check_flat, family_or_own, feature_names
from bayescore.data.design import one_intercept
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.families.normal import Gaussian
from bayescore.models.groups.joint_mode import curvature_at, joint_mode, solver_at
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.models.groups.rows import JointRows
from bayescore.models.modes import find_map
from bayescore.models.posterior import prior_part
from bayescore.models.predictor import multipliers
from bayescore.models.row_kernels import derivatives_of
from bayescore.priors import Prior
from bayescore.priors.groups import (
    DEFAULT_GROUP_PRIOR,
    LKJ_ETA,
    GroupPrior,
    HalfNormal,
    arguments_of_fit,
    group_prior_for,
    prior_for,
    sd_prior_for,
)
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, warn


def weighted_potential(
    name: str,
    data: WeightedData,
    beta: Any,
    family: str | Family | None = None,
    offset: Any = None,
    *,
    groups: Mapping[str, Any] | None = None,
    sd: Any = None,
) -> Any:
    r"""Add the weighted log-likelihood of `data` to the model of the `with` block.

    .. math:: \sum_n w_n \log p\Bigl(y_n \Big| x_n \cdot \beta + o_n + \sum_f z_{fn} \cdot b_{f, g_f(n)}\Bigr)

    Parameters
    ----------
    name : str
        Name of the Potential.
    data : WeightedData
        A coreset or any weighted rows.
    beta : tensor, shape (D,)
        Coefficients, with any prior or hierarchy the model gives them.
    family : str, optional
        Name of a registered family, such as "logistic" or "cloglog"; by default that of the coreset, or "logistic" of
        other rows.
    offset : tensor, shape () or (n,), optional
        Added to the linear predictor of each row, which has the rows' own offsets already. One that differs from row to
        row needs all rows, or a coreset that knows groups: see Notes.
    groups : dict of str to tensor, optional
        Effects by the names of grouping factors of a coreset (``core.groups``), shape (G,), added to the linear
        predictors of rows by their groups; or shape (G, q) for a factor of q effects, each multiplied by its column. A
        row of no group has none.
    sd : tensor, shape (), optional
        The sd of the noise of numbers, where that is a parameter.

    Returns
    -------
    tensor
        The Potential.

    Raises
    ------
    TypeError
        If `name` is no string, or `data` no weighted rows.
    DataError
        If beta or effects have other shapes than the data, or the data know no such factor. If an offset differs from
        row to row, and the rows were chosen without it or are pseudo-rows. If rows have groups and neither `groups` nor
        an offset by row is given.

    Notes
    -----
    A coreset's rows represent all rows in the columns that it was built of, and in no others: rows of one group
    represent rows of all groups. With ``offset=alpha + u[group[core.index]]``, effects u of groups that the coreset
    does not know, the posterior has errors of hundreds of its sds. Build with ``groups=``, or ``(1 | g)`` in a
    formula, by ``method="aggregate"`` if columns are discrete, and give the effects as `groups`; give a known offset to
    `build_coreset`.

    A Potential is no observed variable: `pm.sample_posterior_predictive` has nothing to draw and returns an empty
    object, and there is no pointwise log-likelihood. `Fit.from_draws` takes the draws, of a vector that is called
    "beta": then `Fit.predict` predicts, and `Fit.inference_data` has replicates and log-likelihoods.

    Examples
    --------
    >>> import bayescore as bc, pandas as pd, pymc as pm
    >>> votes = pd.DataFrame({"age": [0, 1, 0, 1, 1, 0], "state": list("aabbcc"), "vote": [0, 1, 0, 0, 1, 1]})
    >>> core = bc.build_coreset(votes, formula="vote ~ age + (1 | state)", method="aggregate")
    >>> with pm.Model(coords={"state": core.groups[0].levels}):
    ...     beta = pm.Normal("beta", 0, 2.5, shape=core.n_features)
    ...     b = pm.Normal("b", 0, pm.HalfNormal("sigma"), dims="state")
    ...     _ = bc.weighted_potential("votes", core, beta, groups={"state": b})
    """
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; give the Potential a name, such as 'votes'")
    if not isinstance(data, WeightedData):
        raise TypeError(f"data is a {type(data).__name__}; give a coreset, or the rows of all_rows")
    given, own = family, getattr(data, "family", "logistic") if family is None else family
    family = check_family(own, rows=data)
    beta = pt.as_tensor_variable(beta)
    static = beta.type.shape
    if len(static) != 1 or static[0] not in (None, data.n_features):
        raise DataError(f"beta has shape {static}; the data have {data.n_features} features")
    eta = pt.dot(pt.as_tensor_variable(np.ascontiguousarray(data.X)), beta)
    if data.offset is not None:
        eta = eta + data.offset
    if not groups and (offset is None or pt.as_tensor_variable(offset).ndim == 0):
        check_flat(data, "weighted_potential without groups=")
    if offset is not None:
        if data.pseudo.any():
            raise DataError(
                "offset is given, but the data have pseudo-rows, which stand for many rows and know nothing of it; "
                "give it to build_coreset, or take a method that keeps rows"
            )
        _check_offset(data, offset)
        eta = eta + offset
    for factor, effects in (groups or {}).items():
        eta = eta + _of_groups(data, factor, pt.as_tensor_variable(effects))
    if sd is not None:
        if not isinstance(family, Gaussian):
            raise DataError(f"sd is given, and the family is {family.name!r}; it is for numbers, family='normal'")
        family = family.at(pt.as_tensor_variable(sd))
    elif given is None and isinstance(data, Coreset) and data._sd_unknown:
        raise DataError(
            "sd is missing: the data were built with family='normal', and the sd of their noise is a parameter; give "
            f"your variable, sd=pm.HalfNormal('sigma', ...), or take it as given, family={family.name!r}"
        )
    return pm.Potential(name, pt.dot(data.weights, family.log_p_graph(eta, data.y.astype(np.float64))))


def _check_offset(data: WeightedData, offset: Any) -> None:
    """Raise if an offset differs from row to row, and those of a coreset were chosen without it; warn if merged."""
    given = pt.as_tensor_variable(offset)
    known = np.asarray(given.data) if isinstance(given, Constant) else None
    if given.ndim == 0 or given.type.shape == (1,) or (known is not None and np.ptp(known) == 0.0):
        return
    if not isinstance(data, Coreset) or data.method == "full" or (data.groups and known is None):
        return
    chosen = f"offset differs from row to row, and the coreset's rows ({data.method}) were "
    remedy = (
        "for effects of groups build it with groups=, or (1 | g) in a formula, by method='aggregate' or of all_rows, "
        "and give them as groups={name: effects}; a known offset is given to build_coreset(offset=)"
    )
    if data.params.get("lossless"):
        warn(f"{chosen}merged without it: right only if it depends on the coreset's own columns; {remedy}")
        return
    raise DataError(f"{chosen}chosen and weighted without it, so that the posterior would be another one: {remedy}")


def _of_groups(data: WeightedData, name: str, effects: Any) -> Any:
    """Return what the effects of a grouping factor add to the linear predictor of each row, shape (n,)."""
    names = [grouping.name for grouping in data.groups] if isinstance(data, Coreset) else []
    if not isinstance(data, Coreset) or data.group is None or name not in names:
        known = f"it knows {', '.join(map(repr, names))}" if names else "it knows no groups: build it with groups="
        raise DataError(f"groups has effects of {name!r}, and the coreset no such factor; {known}")
    place = names.index(name)
    grouping, codes = data.groups[place], data.group[:, place]
    n_effects, static = len(grouping.effects), effects.type.shape
    fits = (len(static) == 2) if n_effects > 1 else (len(static) in (1, 2))
    if not fits or any(a not in (None, b) for a, b in zip(static, (len(grouping), n_effects), strict=False)):
        wanted = f"({len(grouping)},)" if n_effects == 1 else f"({len(grouping)}, {n_effects})"
        raise DataError(f"groups[{name!r}] has shape {static}; it must be {wanted}, an effect for each of its levels")
    table = effects if effects.ndim == 2 else effects[:, None]
    if (codes == NO_GROUP).any():  # which is the last place
        table = pt.concatenate([table, pt.zeros((1, n_effects))])
    return (table[codes] * multipliers(data.X, data.design, grouping)).sum(axis=1)


@dataclass(frozen=True, eq=False)
class EffectScales:
    """What the rows say about a factor's effects; q effects of each of G levels."""

    beta: FloatArray  # at the mode, (p,)
    factor: FloatArray  # L, L L' the covariance of beta
    information: FloatArray  # H, (G, q, q)
    pull: FloatArray  # r at the mode, (G, q)
    slope: FloatArray  # the loss of r for each unit of beta, (G, q, p)


def scales_of(core: Coreset, place: int, family: Family, prior: Prior, group_prior: GroupPrior) -> EffectScales:
    """Return what rows say about the effects of the factor at `place`, the others' at the joint mode."""
    rows, p = JointRows.of(core), core.n_features
    f = rows.places.index(place)
    mode = joint_mode(rows, family, prior, group_prior)
    curvature = curvature_at(rows, mode.beta, mode.effects, family)
    solver = solver_at(curvature, rows, prior_part(mode.beta, prior).precision, mode.covariances)
    covariance = linalg.cho_solve((solver.factor, True), np.eye(len(solver.factor)))[:p, :p]
    G, q = rows.shapes[f]
    if f == 0:
        H, cross = curvature.first, curvature.cross[:, :p].toarray()
    else:
        at = p + sum(levels * effects for levels, effects in rows.shapes[1:f])
        H, cross = curvature.blocks[f - 1], curvature.rest[at : at + G * q, :p]
    score = derivatives_of(rows.eta(mode.beta, mode.effects), rows.rows.y, family)[1]
    pull = rows.pulls(rows.rows.weights * score)[f] + np.einsum("gqr,gr->gq", H, mode.effects[f])
    return EffectScales(mode.beta, np.asarray(linalg.cholesky(covariance, lower=True)), H, pull, cross.reshape(G, q, p))


def draw_coefficients(prior: Prior, names: Sequence[str], draws: int, seed: int) -> dict[str, FloatArray]:
    """Return draws of the coefficients `beta` from their prior, shape (S, D), and of the sds of smooth terms, (S,)."""
    one = np.ones(len(names))
    sds = [bends.name for bends in prior.bends]
    with pm.Model(coords={"feature": list(names)}) as model:
        beta = prior.variable(lambda: (0.0 * one, one))
    drawn = pm.draw([beta, *(model[name] for name in sds)], draws=draws, random_seed=seed)
    each = [np.asarray(one, dtype=np.float64).reshape(draws, -1) for one in drawn]
    return {"beta": each[0], **{name: one[:, 0] for name, one in zip(sds, each[1:], strict=True)}}


def group_sd(prior: GroupPrior) -> tuple[Any, dict[str, float]]:
    """Return PyMC's class of the sd of effects, and its parameters."""
    if isinstance(prior, HalfNormal):
        return pm.HalfNormal, {"sigma": prior.sigma}
    return pm.HalfStudentT, {"nu": prior.nu, "sigma": prior.sigma}


def varying_effects(core: Coreset, place: int, beta: Any, family: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    """Add sd, correlations and effects of a factor to the model of the `with` block; return the effects, (G, q)."""
    grouping, scales = core.groups[place], scales_of(core, place, family, *priors)
    name, q = grouping.name, len(grouping.effects)
    model, (sd, parameters) = pm.modelcontext(None), group_sd(priors[1])
    model.add_coord(name, list(grouping.levels))
    if q == 1:
        factor: Any = sd(f"sigma_{name}", **parameters)[None, None]
    else:
        model.add_coord(f"{name}_effect", list(grouping.effects))
        sds = sd(f"sigma_{name}", dims=f"{name}_effect", **parameters)
        factor = pt.diag(sds)
        if pairs := grouping.paired_effects:
            model.add_coord(f"{name}_pair", [f"{a}, {b}" for a, b in pairs])
            root = correlated(f"rho_{name}_standardised", grouping.block_ends)
            factor = sds[:, None] * root
            rho = [root[i] @ root[j] for i, j in zip(*grouping.pairs, strict=True)]
            pm.Deterministic(f"rho_{name}", pt.stack(rho), dims=f"{name}_pair")
    dims = (name,) if q == 1 else (name, f"{name}_effect")
    z = pm.Normal(f"u_{name}_standardised", dims=dims)
    u, density = _placed(z if q > 1 else z[:, None], beta, factor, scales)
    pm.Potential(f"density_{name}", density)
    return pm.Deterministic(f"u_{name}", u if q > 1 else u[:, 0], dims=dims)


def correlated(name: str, blocks: IntArray) -> Any:
    r"""Add correlations with an LKJ prior to the model of the `with` block; return their Cholesky factor, (q, q).

    `blocks`, shape (q, 2), has the first and past the last of the effects that are correlated with each.

    Partial correlations of j and i > j given those before j are independent, (1 + rho) / 2 ~ Beta(a, a) with
    a = eta + (q - 2 - j) / 2, j from 0 (Lewandowski, Kurowicka and Joe 2009). They are free of the sds: entries of
    the factor of S are not, and one of them narrows as an sd goes to 0.
    """
    shape = np.array([LKJ_ETA + 0.5 * (end - 2 - j) for i, (first, end) in enumerate(blocks) for j in range(first, i)])
    unit = pm.Beta(name, shape, shape)
    partial = iter([2.0 * unit[k] - 1.0 for k in range(len(shape))])
    rows = []
    for i, (first, _) in enumerate(blocks):
        left: Any = 1.0
        row: list[Any] = [0.0] * first
        for _ in range(first, i):
            rho = next(partial)
            row.append(rho * pt.sqrt(left))
            left = left * (1.0 - rho**2)
        rows.append(pt.stack([*row, pt.sqrt(left), *[0.0] * (len(blocks) - i - 1)]))
    return pt.stack(rows)


def _placed(z: Any, beta: Any, factor: Any, scales: EffectScales) -> tuple[Any, Any]:
    """Return effects, shape (G, q), and log N(u; 0, S) + log |du / dz| - log N(z; 0, I), of all, up to a constant."""
    G, q, p = scales.slope.shape
    both = (factor[:, None, :, None] * factor[None, :, None, :]).reshape((q * q, q * q))
    A = np.eye(q) + pt.dot(scales.information.reshape(G, q * q), both).reshape((G, q, q))
    slope = np.ascontiguousarray(scales.slope.reshape(G * q, p))
    pull = pt.dot(scales.pull - pt.dot(slope, beta - scales.beta).reshape((G, q)), factor)
    L: dict[tuple[int, int], Any] = {}  # entries of all levels: q is small
    for j in range(q):
        L[j, j] = pt.sqrt(A[:, j, j] - sum(L[j, k] ** 2 for k in range(j)))
        for i in range(j + 1, q):
            L[i, j] = (A[:, i, j] - sum(L[i, k] * L[j, k] for k in range(j))) / L[j, j]
    there: list[Any] = []
    w: list[Any] = [None] * q
    for i in range(q):
        there.append((pull[:, i] - sum(L[i, k] * there[k] for k in range(i))) / L[i, i])
    for i in reversed(range(q)):
        w[i] = (there[i] + z[:, i] - sum(L[k, i] * w[k] for k in range(i + 1, q))) / L[i, i]
    white = pt.stack(w, axis=1)
    density = 0.5 * ((z**2).sum() - (white**2).sum()) - sum(pt.log(L[j, j]).sum() for j in range(q))
    return pt.dot(white, factor.T), density


def model(
    data: Any,
    prior: Prior | Mapping[str, Prior] | None = None,
    *,
    group_prior: GroupPrior | None = None,
    family: "str | Family | None" = None,
) -> pm.Model:
    r"""Return the regression of weighted rows as a `pm.Model`; use it in a `with` block.

    .. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}, \qquad u_{f, g} \sim N(0, S_f)

    The effects u_f exist where the data have grouping factors f: `(1 | g)`, slopes `(1 + x | g)`, uncorrelated ones
    `(1 + x || g)`, several factors `(1 | a) + (1 | b)`, nested or crossed. Replicated responses
    are those of `Fit.inference_data`: `pm.sample_posterior_predictive` has nothing to draw from a potential.

    Parameters
    ----------
    data : WeightedData or Fit
        A coreset or all rows, D columns; or a fit, whose coreset and priors are taken.
    prior : prior or dict of str to prior, optional
        Prior of the coefficients `beta`, dims "feature", or priors by name, as in `sample`. Under the horseshoe `beta`
        is deterministic: an affine function of `beta_standardised`, which NUTS moves.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of each sd of effects; correlations have LKJ(2).
    family : str, optional
        By default the one that the coreset was built for.

    Returns
    -------
    pm.Model
        With `beta` and the weighted log-likelihood as a Potential. For each factor g also `sigma_g` and `u_g`, dims
        "g"; of several effects dims "g_effect" too, and `rho_g`, of those that are correlated. For numbers built with
        "normal" also `sigma`, the sd of the noise. NUTS moves `u_g_standardised`, and `rho_g_standardised`, partial
        correlations on (0, 1).
        `bc.sample(core)` samples this model, or integrates the effects of `(1 | g)` out, which is faster.

    Raises
    ------
    TypeError, ValueError
        If a prior is not one of bayescore's, or does not fit the columns.
    DataError
        If `group_prior` is given for data without groups, or a prior without a closed form for data with groups.

    References
    ----------
    Papaspiliopoulos, Roberts and Skold (2007), Statistical Science 22.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=2000), "county": rng.integers(0, 10, 2000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=2000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> model = bc.model(core, prior=bc.priors.Normal(0, 2.5), group_prior=bc.priors.HalfNormal(1))
    >>> [variable.name for variable in model.free_RVs]
    ['beta', 'sigma_county', 'u_county_standardised']
    """
    data, prior, group_prior = arguments_of_fit(data, prior, group_prior)
    if not isinstance(data, WeightedData):
        raise TypeError(f"data is {data!r:.60}; give a coreset, a fit, or the rows of all_rows")
    own = family_or_own(data, family) if family is None or isinstance(family, str) else family
    known = check_family(own, rows=data)
    chosen, names = prior_for(prior, data, known), feature_names(data)
    groups = data.groups if isinstance(data, Coreset) else ()
    sd_prior = sd_prior_for(data) if family is None and getattr(data, "_sd_unknown", False) else None
    if not groups:
        check_flat(data, "a model")
        if group_prior is not None:
            raise DataError(
                "group_prior is given, and the data have no groups: build them with groups=, or leave it out"
            )
        with pm.Model(coords={"feature": names}) as built:
            beta = chosen.variable(lambda: _mode_of_rows(data, known))
            weighted_potential("log_likelihood", data, beta, known, sd=_noise_sd(sd_prior))
        return built
    if not chosen.closed_form:
        raise DataError(
            f"prior={type(chosen).__name__} is not for models with groups; use a prior with a density in closed form"
        )
    core, spread = cast(Coreset, data), group_prior_for(group_prior, data, known)
    with pm.Model(coords={"feature": names}) as built:
        beta = chosen.variable()
        if one_intercept(groups):
            effects = {groups[0].name: _one_intercept(core, beta, known, (chosen, spread))}
        else:
            effects = {
                factor.name: varying_effects(core, place, beta, known, (chosen, spread))
                for place, factor in enumerate(groups)
            }
        weighted_potential("log_likelihood", core, beta, known, groups=effects, sd=_noise_sd(sd_prior))
    return built


def _noise_sd(prior: GroupPrior | None) -> Any:
    """Add the sd of the noise to the model of the `with` block; None where it is given."""
    if prior is None:
        return None
    sd, parameters = group_sd(prior)
    return sd("sigma", **parameters)


def _mode_of_rows(data: WeightedData, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return mode and sds of the coefficients under a weak prior, which keeps the mode finite."""
    mode = find_map(data, family.name)
    return mode.beta, mode.sd


def start_of(core: Coreset, prior: Prior, family: str) -> tuple[FloatArray, FloatArray]:
    """Return about the mode of beta, shape (p,), and the factor L of its covariance, for chains to start from."""
    scales = scales_of(core, 0, check_family(family), prior, DEFAULT_GROUP_PRIOR)
    return scales.beta, scales.factor


def _one_intercept(core: Coreset, beta: Any, family: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    r"""Add sd and effects of the factor to the model of the `with` block; return the effects, (G,).

    Let the rows alone say that u_g is m_g(beta), with sd h_g, and a = sigma^2 / (sigma^2 + h^2). u = a m + sqrt(a) h z
    has a z that is nearly N(0, 1) a posteriori. It is exact whatever m and h are, with z ~ N(-sqrt(a) m / h,
    (sigma^2 + h^2) / h^2). `varying_graph` does the same with matrices.
    """
    grouping = core.groups[0]
    effects = CollapsedTarget.of(core, family, priors, len(grouping)).effects
    h = effects.information[:-1] ** -0.5
    name = grouping.name
    pm.modelcontext(None).add_coord(name, list(grouping.levels))
    sd, parameters = group_sd(priors[1])
    sigma = sd(f"sigma_{name}", **parameters)
    m = effects.peak[:-1] - pt.dot(np.ascontiguousarray(effects.slope[:-1]), beta - effects.beta)
    root = sigma / pt.sqrt(sigma**2 + h**2)
    z = pm.Normal(f"u_{name}_standardised", -root * m / h, pt.sqrt(sigma**2 + h**2) / h, dims=name)
    return pm.Deterministic(f"u_{name}", root**2 * m + root * h * z, dims=name)
