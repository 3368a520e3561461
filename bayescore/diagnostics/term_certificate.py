r"""The certificate of draws with several grouping factors, or effects of columns: importance weights on all of them.

At some of the draws the log-likelihood of the full data is added up in one pass, effects of groups included, and

.. math:: \log w = \log p(y | \beta, u) - \text{the same of the coreset}

weighs the draw: the priors cancel. Effects are not integrated out, as they are for `(1 | g)` (`group_certificate`), so
the weights see what all cells' pseudo-rows miss together: their log's sd grows with the root of the cells' number, 0.1
to 0.3 for 600 cells, and where it is too much the verdict says so. Verdicts are those of `group_certificate`, by the
same limits; the effects' means and sds must be within `CLOSE` by the same weights.

Not checked: Stein's identities, by which draws that are not of the coreset's posterior show (digests tell only whether
somebody changed them since `sample`); whether chains agree on each effect, as they must on coefficients, log sds and
correlations. There is no elpd.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayescore.compat import inference_data
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.diagnostics.coefficients import bare_table, table
from bayescore.diagnostics.corrected import systematic
from bayescore.diagnostics.family import risk
from bayescore.diagnostics.figures import Run, families, informed_sd
from bayescore.diagnostics.figures import target as figures
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.full_weights import full_weights
from bayescore.diagnostics.group_certificate import trouble_of, verdict
from bayescore.diagnostics.health import unfit
from bayescore.diagnostics.report import write_certificate
from bayescore.diagnostics.results import Level, MultilevelCertificateData
from bayescore.diagnostics.tails import tail_k
from bayescore.limits import RISK
from bayescore.models.likelihoods import check_likelihood
from bayescore.samplers.inference_data import Posterior, flat_draws
from bayescore.types import NO_GROUP, FloatArray, Grouping, IntArray, Likelihood, WeightedData

_ROWS = 1024  # looked at together, at all draws


@dataclass(frozen=True, eq=False, repr=False)
class TermsCertificate(MultilevelCertificateData):
    """What `certify` found; `coordinates` has rows for log sds and correlations, `effects` one for each effect."""

    def __repr__(self) -> str:
        lines = [f"Certificate: {self.level}", f"  {self.text}"]
        return "\n".join([*lines, f"  {self.n_passes} passes over the full data"] if self.n_passes else lines)

    def to_html(self, path: str | Path, idata: Any, core: Coreset, *, test: WeightedData | None = None) -> None:
        """Refuse: there is no page of several factors, or of effects of columns.

        Raises
        ------
        DataError
            Always.
        """
        write_certificate(self, idata, core, path, test=test)


class _Terms(NamedTuple):
    """Of a factor: columns that its effects are multiplied by, -1 the number 1, and draws of these, (S, G + 1, q)."""

    columns: tuple[int, ...]
    effects: FloatArray


def certify_terms(idata: Any, posterior: Posterior, core: Coreset, opened: Opened, max_draws: int) -> Any:
    """Return the `TermsCertificate` of draws from `sample` of a coreset with groups."""
    factor, trouble = ", ".join(own.name for own in core.groups), trouble_of(idata, posterior, core)
    joint = posterior if trouble else _joint(idata, posterior, core.groups)
    if trouble := trouble or unfit(joint):
        none = math.nan, math.nan, len(joint.flat), math.nan, math.nan
        return TermsCertificate(Level.NOT_CERTIFIED, trouble, *none, bare_table(joint), factor=factor)
    chosen = joint.positions(max_draws)
    link = check_likelihood(posterior.likelihood.name)
    terms = [_terms(idata, own, core, chosen) for own in core.groups]
    work = partial(_log_likelihood, posterior.flat[chosen], terms, link)
    total, weight = np.zeros(len(chosen)), 0.0
    for own, part in opened.map(work, "certifying", canonical=True):
        total, weight = total + own, weight + part
    check_finite(opened, total)
    check_weight(core, weight)
    weights = full_weights(total - work(0, core)[0])
    w, run = weights.weights, Run(joint.draws)
    full = figures(run, chosen, w)
    heavy = np.zeros(joint.draws.shape[2], dtype=bool)
    raw = families(run, joint.features, heavy, full)
    kept = systematic(w)
    corrected = joint.flat[chosen][kept].reshape(len(joint.draws), -1, joint.draws.shape[2])
    left = families(Run(corrected), joint.features, heavy, full, resampled=True)
    effects = pd.concat(
        [
            _errors(each.effects[:, :-1], own, w, float(full.slow.max()))
            for own, each in zip(core.groups, terms, strict=True)
        ]
    )
    level, text = verdict(weights, 0, raw, left, effects)
    good = level is not Level.NOT_CERTIFIED and risk(left) <= RISK
    return TermsCertificate(
        level=level,
        text=text,
        pareto_k=weights.pareto_k,
        ess=weights.ess,
        n_draws=len(chosen),
        epsilon=math.nan,
        log_ratio_sd=weights.spread,
        coordinates=table(joint, tail_k(joint.flat), heavy, raw, full),
        risk=risk(raw),
        corrected_risk=risk(left),
        n_passes=opened.n_passes,
        idata=_corrected(idata, posterior, chosen[kept], weights.ess) if good else None,
        effects=effects,
        factor=factor,
    )


def _joint(idata: Any, posterior: Posterior, groups: tuple[Grouping, ...]) -> Posterior:
    """Return draws of beta, the log sds, and of correlations Fisher's z."""
    parts, names = [posterior.flat], list(posterior.features)
    for own in groups:
        sd = flat_draws(idata, f"sigma_{own.name}").reshape(-1, len(own.effects))
        parts.append(np.log(sd))
        names += [f"log sigma_{own.name}" + (f"[{effect}]" if len(own.effects) > 1 else "") for effect in own.effects]
        if len(own.effects) > 1:
            rho = flat_draws(idata, f"rho_{own.name}")
            parts.append(np.arctanh(np.clip(rho, -1.0 + 1e-12, 1.0 - 1e-12)))
            names += [f"z of rho_{own.name}[{k}]" for k in range(rho.shape[1])]
    draws = np.concatenate(parts, axis=1).reshape(*posterior.draws.shape[:2], -1)
    attrs = {key: value for key, value in posterior.attrs.items() if key != "design"}
    return replace(posterior, draws=draws, features=tuple(names), attrs=attrs)


def _terms(idata: Any, own: Grouping, core: Coreset, chosen: IntArray) -> _Terms:
    u = flat_draws(idata, f"u_{own.name}").reshape(-1, len(own), len(own.effects))[chosen]
    constant = -1 if core.design.constant is None else core.design.constant
    columns = tuple(constant if effect == "1" else core.feature_names.index(effect) for effect in own.effects)
    return _Terms(columns, np.concatenate([u, np.zeros((len(u), 1, u.shape[2]))], axis=1))  # the last: of no group


def _log_likelihood(
    beta: FloatArray, terms: list[_Terms], link: Likelihood, _: int, block: WeightedData
) -> tuple[FloatArray, float]:
    """Return the log-likelihood of rows at each draw, shape (S,), and their weight."""
    total = np.zeros(len(beta))
    for rows in _pieces(block):
        assert rows.group is not None
        eta = rows.X @ beta.T
        if rows.offset is not None:
            eta += rows.offset[:, None]
        for each, codes in zip(terms, rows.group.T, strict=True):
            for k, column in enumerate(each.columns):
                z = np.ones(len(rows)) if column < 0 else rows.X[:, column]
                eta += z[:, None] * each.effects[:, codes, k].T  # NO_GROUP is the last place
        total += rows.weights @ link.log_p(rows.y[:, None] * eta)
    return total, float(block.weights.sum())


def _pieces(block: WeightedData) -> Iterator[WeightedData]:
    assert NO_GROUP == -1
    return (block.take(slice(start, start + _ROWS)) for start in range(0, len(block), _ROWS))


def _errors(u: FloatArray, own: Grouping, w: FloatArray, slow: float) -> pd.DataFrame:
    """Return means and sds of effects by draws, shape (S, G, q), and by weights, as the certificate has them."""
    mean, sd = u.mean(axis=0), u.std(axis=0)
    full = np.einsum("s,sgq->gq", w, u)
    square = (u - full) ** 2
    full_sd = informed_sd(np.sqrt(np.einsum("s,sgq->gq", w, square)), sd)
    mcse = slow * 0.5 * np.sqrt(np.einsum("s,sgq->gq", (w - 1.0 / len(w)) ** 2, (square / full_sd**2 - 1.0) ** 2))
    columns = {
        "mean": mean,
        "sd": sd,
        "corrected_mean": full,
        "corrected_sd": full_sd,
        "mean_error_sd": (mean - full) / full_sd,
        "log_sd_error": np.log(sd / full_sd),
        "log_sd_error_mcse": mcse,
    }
    index = pd.MultiIndex.from_product([[own.name], own.levels, own.effects], names=["factor", "group", "effect"])
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)


def _corrected(idata: Any, posterior: Posterior, kept: IntArray, ess: float) -> Any:
    """Return resampled draws of all variables."""
    source, n_chains = idata["posterior"], len(posterior.draws)
    values, dims = {}, {}
    for name in map(str, source.data_vars):
        draws = flat_draws(idata, name)[kept]
        values[name] = draws.reshape(n_chains, -1, *draws.shape[1:])
        dims[name] = [str(dim) for dim in source[name].dims if dim not in ("chain", "draw")]
    coords = {str(name): list(own.values) for name, own in source.coords.items() if name not in ("chain", "draw")}
    made = inference_data({"posterior": values}, coords=coords, dims=dims)
    attrs = {key: value for key, value in posterior.attrs.items() if key not in ("posterior_of", "effects_of")}
    how = f"resampled by importance weights (effective {ess:.0f} of {len(kept)})"
    made.posterior.attrs.update(attrs, corrected=how)
    return made
