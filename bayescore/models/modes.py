r"""The MAP estimate and the maximum likelihood estimate of weighted rows, with their normal approximations.

With a proper prior the mode is finite even where the labels are separable and the maximum likelihood estimate does not
exist; without a prior, `find_mle` says so.

Where searches for modes with Student t noise begin: that density is not concave, and may have several modes.

Least squares lie between the bulk of the rows and outliers, from where a climb ends with noise as wide as both. The
least absolute deviations stay with more than half of the rows, however far the others lie. Where few rows are near
either, as between two clusters, the rows of each side have a line of their own. All are tried, and the likeliest is the
start.

Reference: Schlossmacher (1973), An iterative technique for absolute deviations curve fitting, JASA 68.

The sds of smooth terms at their posterior mode, by Laplace's method, and the mode of the coefficients there.

With b the coefficients of a term's bends at the mode given sigma, V their covariance and K their number, the slope of
the log density of log sigma, coefficients integrated out, is about

.. math:: |b|^2 / \sigma^2 - \mathrm{edf} + p'(\log\sigma), \qquad \mathrm{edf} = K - \mathrm{tr}(V) / \sigma^2,

whose zero without the prior is the fixed point of Fellner and Schall; minus its own slope is about 2 edf.

Reference: Schall (1991), Estimation in generalized linear models with random effects, Biometrika 78; Wood and Fasiolo
(2017), A generalized Fellner-Schall method for smoothing parameter optimization, Biometrics 73.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayescore.data.coreset import Coreset, check_flat, family_or_own, feature_names
from bayescore.data.design import one_intercept, terms_text
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.models.laplace import Mode, NoModeError, find_mode
from bayescore.models.posterior import Derivatives, likelihood_terms, posterior, prior_part
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior, group_prior_for, log_sigma_terms, prior_for
from bayescore.priors.prior import check_density
from bayescore.priors.smooths import Smooths
from bayescore.text import see
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

if TYPE_CHECKING:
    from bayescore.families import Family


_TURNS = 40  # with 40% of the rows far off in one direction each takes a third off the distance


_STILL = 1e-3  # of the median deviation: moves of predictors at which they end


_EASED = 10  # turns by weights of the noise


_HOLLOW = 0.4  # of the median of sizes of residuals, above which the smallest tenth says that few rows are near


_LEAST_ROWS, _ROWS_EACH = 2000, 10  # rows, and more for each column, that tell a start


def weighted_least_squares(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coefficients, shape (D,), by rows of some weights."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(X * root[:, None], y * root)[0])


def least_deviations(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return about the coefficients of least absolute deviations, shape (D,), by least squares over and over."""
    beta = weighted_least_squares(X, y, weights)
    for _ in range(_TURNS):
        size = np.abs(y - X @ beta)
        middle = float(np.median(size))
        if middle == 0.0:
            break
        moved = weighted_least_squares(X, y, weights / np.maximum(size, 1e-3 * middle))
        still = float(np.abs(X @ (moved - beta)).max()) < _STILL * middle
        beta = moved
        if still:
            break
    return beta


def lines(X: FloatArray, y: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Return coefficients, shape (D,) each, from which climbs begin, so that one reaches the highest mode."""
    found = [weighted_least_squares(X, y, weights), least_deviations(X, y, weights)]
    for beta in tuple(found):
        residuals = y - X @ beta
        near, middle = np.quantile(np.abs(residuals), [0.1, 0.5])
        for some in (residuals > 0.0, residuals < 0.0) if near > _HOLLOW * middle else ():
            if some.sum() > X.shape[1]:
                found.append(weighted_least_squares(X[some], y[some], weights[some]))
    return found


def search_start(rows: WeightedData, family: "Family") -> FloatArray:
    """Return where a search for the mode begins, shape (D,): at 0, but for Student t noise, whose -y is the offset."""
    if family.quadratic or not family.numbers or rows.offset is None:
        return np.zeros(rows.n_features)
    some = rows.take(slice(None, None, max(1, len(rows) // (_LEAST_ROWS + _ROWS_EACH * rows.n_features))))
    X, y, w = some.X, -some.offsets, some.weights

    def log_density(beta: FloatArray) -> float:
        return float(w @ family.log_p(X @ beta - y, 1))

    def eased(beta: FloatArray) -> FloatArray:
        for _ in range(_EASED):
            eta = X @ beta - y
            with np.errstate(divide="ignore", invalid="ignore"):
                pull = np.where(eta == 0.0, 0.0, -family.score(eta, 1) / eta)
            pull[eta == 0.0] = pull.max(initial=0.0)
            beta = weighted_least_squares(X, y, w * pull)
        return beta

    return max(map(eased, lines(X, y, w)), key=log_density)


MLE_TOLERANCE = 1e-6  # standard errors


NO_JOINT_MODE = "Effects and their sds have no joint mode: their density rises without bound as an sd goes to 0"


def find_map(
    data: WeightedData,
    family: str | None = None,
    prior: Prior | Mapping[str, Prior] | None = None,
    *,
    group_prior: GroupPrior | None = None,
) -> Mode:
    r"""Return the MAP estimate of weighted rows and the Laplace approximation of their posterior.

    Without groups it is the mode of beta. With `(1 | g)` it is the mode of the marginal posterior of (beta,
    log sigma_g), each group's effect integrated out:

    .. math:: \log\pi(\beta, \log\sigma) =
              \sum_g \log \int \prod_{n \in g} p(y_n | x_n \beta + o_n + b)^{w_n} N(b; 0, \sigma^2) db +
              \log\pi_0(\beta) + \log\pi_0(\log\sigma)

    Parameters
    ----------
    data : WeightedData
        A coreset or all rows, D columns.
    family : str, optional
        Name of a registered family, such as "logistic" or "cloglog"; by default the coreset's own.
    prior : prior or dict of str to prior, default that of `fit`
        Any prior with a density in closed form, or priors by name, as in `sample`.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of the sd of effects, where the rows have groups.

    Returns
    -------
    Mode
        `beta` has D entries. With `(1 | g)` it has D + 1, and the last one is log sigma_g: see `names`.

    Raises
    ------
    DataError
        If the rows have several group terms, or slopes that vary: the joint density of effects and their sds rises
        without bound as an sd goes to 0. If `group_prior` is given, and the rows have no groups.

    Notes
    -----
    The kink of the `Laplace` prior is rounded off, see `priors.laplace.LAPLACE_ROUNDING`. Where log p is not
    concave there may be several modes; this is the one that Newton's method reaches from 0, or with Student t noise
    from the least squares or the least absolute deviations, whichever are likelier. Effects are integrated out by
    quadrature, to 1e-3 nats over all groups (`models.groups.nodes`); the density of log sigma is that of sigma times
    sigma, so that its mode is not at sigma = 0.

    References
    ----------
    Moré (1978), The Levenberg-Marquardt algorithm: implementation and theory; Nielsen (1999), Damping parameter in
    Marquardt's method; Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12-35.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.all_rows(X, y, progressbar=False)
    >>> mode = bc.find_map(full, prior=bc.priors.Normal(0, 2.5))
    >>> mode.beta.round(2), mode.sd.round(2)
    (array([ 1.02, -0.01]), array([0.04, 0.03]))

    With the county of each row, whose intercepts have sd 1:

    >>> county = rng.integers(0, 20, 5000)
    >>> rows = pd.DataFrame({"age": X[:, 0], "county": county})
    >>> rows["vote"] = X[:, 0] + rng.normal(size=20)[county] + rng.logistic(size=5000) > 0
    >>> mode = bc.find_map(bc.all_rows(rows, formula="vote ~ age + (1 | county)", progressbar=False))
    >>> mode.names
    ('Intercept', 'age', 'log sigma_county')
    >>> bool(0.7 < np.exp(mode.beta[-1]) < 1.5)
    True
    """
    family, names = family_or_own(data, family), feature_names(data)
    chosen = prior_for(prior, data, check_family(family, rows=data))
    if chosen.bends:
        raise DataError(
            f"find_map is of a density with a mode, and that of {chosen.bends[0].term} rises without bound as its sd "
            "goes to 0: use sample, or fit"
        )
    if data.group is None:
        if group_prior is not None:
            raise DataError("group_prior is given, and the data have no groups: leave it out")
        target = posterior(data, family, chosen, "the MAP estimate")
        return replace(find_mode(target.terms, search_start(data, target.family)), names=names)
    groups = data.groups if isinstance(data, Coreset) else ()
    if not groups:
        check_flat(data, "find_map")
    if not one_intercept(groups):
        raise DataError(
            f"data have the group terms {terms_text(groups)}; find_map integrates out the effects of one factor whose "
            f"intercept varies, (1 | g), and of no others. {NO_JOINT_MODE}: use sample, which draws them all"
        )
    check_density(chosen, "the MAP estimate")
    priors = chosen, group_prior_for(group_prior, data, check_family(family))
    mode = CollapsedTarget.of(data, check_family(family, rows=data), priors, len(groups[0])).mode()
    return replace(mode, names=(*names, f"log sigma_{groups[0].name}"))


def find_mle(data: WeightedData, family: str | None = None) -> Mode:
    r"""Return the maximum likelihood estimate of a weighted data set and its asymptotic covariance.

    .. math:: \hat\beta = \arg\max_\beta \sum_n w_n \log p(y_n | x_n \cdot \beta + o_n)

    It exists if and only if no direction has y_n x_n . direction >= 0 in all rows and > 0 in one. Along such a
    direction the log-likelihood rises for ever. A warning then says so, and the coefficients returned are those at
    which the rise is lost in rounding: finite, but no estimate. This judges by the last Newton step; `separability`
    decides by a proof, and the two may differ where rows overlap by angles below 1e-9. All this holds where log p is
    concave; under another likelihood the result is a local maximum, and rows may be separated without a warning.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data.
    family : str, optional
        Name of a registered family, such as "logistic" or "cloglog"; by default the coreset's own.

    Returns
    -------
    Mode
        Where columns depend on each other many coefficients fit equally well: `beta` is the shortest of them once each
        column of sqrt(w) x has largest entry 1, and `covariance` is singular.

    Raises
    ------
    DataError
        If all entries of X are 0, or the rows have groups: the joint density of effects and their sds rises without
        bound as an sd goes to 0.
    NoModeError
        If the mode is not reached, as where a few rows all but fail to overlap.

    Warns
    -----
    UserWarning
        If the labels are separated: how, and how many rows move on.

    References
    ----------
    Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.all_rows(X, y, progressbar=False)
    >>> bc.find_mle(full).beta.round(2)
    array([ 1.02, -0.01])
    """
    chosen = check_family(family_or_own(data, family), rows=data)
    if data.group is not None:
        raise DataError(
            f"data have groups. {NO_JOINT_MODE}, and sds of effects alone have their likelihood's maximum at 0 in many "
            "data: use find_map, which integrates effects of (1 | g) out and has a prior of sigma, or sample"
        )
    basis = _span(data.X * np.sqrt(data.weights)[:, None])
    rows = np.ascontiguousarray(data.X) @ basis
    spanned = replace(data, X=rows)
    failure: NoModeError | None = None
    try:
        mode = find_mode(
            lambda beta: likelihood_terms(beta, spanned, chosen), search_start(spanned, chosen), tolerance=MLE_TOLERANCE
        )
    except NoModeError as error:  # a long way to infinity, perhaps
        if error.reached is None:
            raise
        failure, mode = error, error.reached
    eta, rise = (data.y * (rows @ by) for by in (mode.beta, mode.covariance @ mode.terms.gradient))
    # near a maximum the next Newton step is nothing; towards infinity it adds 1 to the least eta that grows (logistic),
    # 1 / eta (probit), or 1 to the least -log(-log p) of any family, without end. Of a row far out eta has a large sd
    # and rises by some of that: by 6e-4 of itself at most where labels overlap, by 0.01 or more where they do not
    there = spanned.with_offset(rows @ mode.beta)
    loss = np.maximum(-chosen.log_p(there, data.y), np.finfo(float).tiny)
    gain = rise * np.abs(chosen.score(there, data.y)) / loss
    growing = (rise > 0.05) & (rise > 3e-3 * np.abs(eta)) | (gain > 0.05) & (gain > 3e-3 * np.abs(np.log(loss)))
    if chosen.numbers or not growing[rise.argmax()] or rise.min() <= -1e-6 * rise.max():
        if failure is not None and not mode.decrement < 1e-3:
            raise failure
    else:
        how = "completely" if (eta > 0.0).all() else "quasi-completely"
        warnings.warn(
            f"the labels are {how} separated, the maximum likelihood estimate does not exist: of {len(eta)} rows "
            f"{int(growing.sum())} go ever farther to the side of their label, and the log-likelihood, now "
            f"{mode.terms.value:.3g}, rises for ever. The coefficients returned, with eta from {eta.min():.3g} to "
            f"{eta.max():.3g}, are merely where that is lost in rounding. Use find_map, which has a "
            f"prior{see('how-to/separated.md')}",
            UserWarning,
            stacklevel=2,
        )
    beta = basis @ mode.beta
    covariance = basis @ mode.covariance @ basis.T
    return replace(
        mode, beta=beta, covariance=covariance, terms=likelihood_terms(beta, data, chosen), names=feature_names(data)
    )


def _span(rows: FloatArray) -> FloatArray:
    """Return B, shape (D, r), r the rank, such that the columns of `rows` B are orthonormal."""
    scale = np.abs(rows).max(axis=0)
    if not scale.any():
        raise DataError("all entries of X are 0: the likelihood does not depend on the coefficients; check the columns")
    scale[scale == 0.0] = 1.0
    _, values, directions = np.linalg.svd(np.linalg.qr(rows / scale, mode="r"))
    rank = int((values > 1e-12 * values[0]).sum())
    return np.asarray(directions[:rank].T / values[:rank] / scale[:, None])


_FIRST = 0.2  # of the scale of its prior


_LEAST_EDF = 0.25  # by which steps are divided


_MOST = 1.0  # change of log sigma in a step


_NEAR = 0.02


_STEPS = 50


class SmoothMode(NamedTuple):
    """The sd of each term's bends at the mode of its logarithm, the sd of that, shape (J,) each, and the mode there."""

    sigmas: FloatArray
    log_sigma_sds: FloatArray
    coefficients: Mode


def smooth_mode(likelihood: Callable[[FloatArray], Derivatives], prior: Smooths) -> SmoothMode:
    """Return the mode of each log sigma, coefficients integrated out, and that of the coefficients there."""
    log_sigmas, beta = np.log([_FIRST * each.scale for each in prior.bends]), np.zeros(prior.n_features)
    slopes, bends = np.empty_like(log_sigmas), np.empty_like(log_sigmas)
    for _ in range(_STEPS):
        given = prior.given(np.exp(log_sigmas))

        def terms(at: FloatArray) -> Derivatives:
            return likelihood(at) + prior_part(at, given)  # noqa: B023 - of this step

        mode = find_mode(terms, beta, tolerance=_NEAR)
        beta = mode.beta
        for j, each in enumerate(prior.bends):
            at, variance = list(each.places), float(np.exp(2.0 * log_sigmas[j]))
            spread = float((np.diagonal(mode.covariance)[at] / np.square(each.scales)).sum())
            edf = len(at) - spread / variance
            _, slope, bend = log_sigma_terms(log_sigmas[j], each.nu, each.scale)
            slopes[j] = float(each.squares(beta)) / variance - edf + slope
            bends[j] = 2.0 * max(edf, _LEAST_EDF) + bend
        steps = np.clip(slopes / bends, -_MOST, _MOST)
        if np.abs(steps).max() < _NEAR:
            break
        log_sigmas += steps
    return SmoothMode(np.exp(log_sigmas), 1.0 / np.sqrt(bends), mode)
