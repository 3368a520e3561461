"""Posterior draws as arrays: the one reader of InferenceData, so that a bad posterior is refused in the same words.

It reads `posterior["beta"]` with dims chain, draw and feature, and where they exist the sampler's statistics, the
weights in `constant_data` and the attributes of `posterior`.

Posterior files: netCDF, written whole or not at all, and read with a plain word where they are not one.

Draws that `sample` hands over moved to the full data's posterior (`models.laplace`), and the way back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayescore.compat import as_xarray, is_inference_data, read_inference_data, with_groups, write_inference_data
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping, terms_text
from bayescore.data.formula_design import read_design
from bayescore.families import Family
from bayescore.families.family import FAMILIES, SIZED, Varying, check_family, find_family
from bayescore.files import UnpacksError, check_packed, check_path, digest, whole_file
from bayescore.limits import MAX_LOG_RATIO_SD, MIN_DRAWS
from bayescore.models.groups.effects import unkept_effects
from bayescore.models.laplace import MOVED, StaysError, Transport, left_over, to_full
from bayescore.models.predictor import Factor, Predictor, correlations, parameters
from bayescore.numerics.chains import evenly_spaced
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import GroupPrior, group_prior_from_dict
from bayescore.text import listed
from bayescore.types import NO_ROW, FloatArray, IntArray
from bayescore.validation import DataError, EarlierDesignError, json_object

SD_PRIOR, SIZE_PRIOR = "sd_prior", "size_prior"
"""Attributes of a posterior that have the prior of its family's number, where that is a parameter."""

SMOOTH_SDS = "smooth_sds"
"""Attribute of a posterior that names the sds of the bends of smooth terms."""

MAX_DRAW = 1e25  # size of a coefficient; mmd takes the squares of sixth powers


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the coefficients and what is known of their making; what is not known is None or empty."""

    name: str  # what error messages call it
    draws: FloatArray  # of beta, shape (chain, draw, D)
    features: tuple[str, ...]  # names of the D coordinates
    divergences: int | None = None
    acceptance_rate: float | None = None
    weights: FloatArray | None = None  # of the rows that it was drawn from
    positive: float | None = None  # share of their weight whose label is +1
    attrs: Mapping[str, Any] = field(default_factory=dict)
    coreset: Mapping[str, Any] = field(default_factory=dict)  # what made the coreset
    log_density: FloatArray | None = None  # of each draw, shape (chain, draw), up to a constant
    story: Mapping[str, Any] = field(default_factory=dict)  # digests of rows and draws, prior and family, by `sample`
    has_offset: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)  # parameters of groups and noise, shape (S, ...) each

    @property
    def offset(self) -> str | None:
        """What the offset of the rows that it was drawn from is called; None if they had none."""
        design = self.design
        if design is not None:
            return design.offset  # pseudo-rows have offsets whatever the data have
        return "offset" if self.has_offset else None

    @property
    def family(self) -> Family:
        """Family of the rows that it was drawn from."""
        if (family := find_family(self.attrs.get("family"))) is None:
            raise DataError(
                f"{self.name} does not tell its family; set idata.posterior.attrs['family'] to one of "
                f"{', '.join(map(repr, FAMILIES))}, or sample by bayescore.sample"
            )
        return family

    @property
    def design(self) -> Design | None:
        """How raw features become its coordinates; None for a foreign posterior."""
        if "design" not in self.attrs:
            return None
        problem = _damaged_message(self.name, "design")
        try:
            design = read_design(json_object(self.attrs["design"], problem))
            classes = self.coreset.get("classes")
            design = replace(design, classes=None if classes is None else tuple(classes))
            scaled = (len(design.names) - design.intercept,)
            fits = all(
                part is None or np.shape(np.asarray(part, float)) == scaled for part in (design.center, design.scale)
            )
        except EarlierDesignError as error:
            raise EarlierDesignError(f"{self.name}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(problem) from None
        if not fits or len(design.names) != len(self.features):
            raise DataError(problem)
        return design

    @property
    def terms(self) -> str:
        """Group terms of the model that `sample` drew it from, as a formula has them; empty where there are none."""
        return str(self.attrs.get("group_terms", ""))

    @property
    def prior(self) -> Prior:
        """Prior of the coefficients, of draws that tell their `story`."""
        return prior_from_dict(self.story["prior"])

    @property
    def group_prior(self) -> GroupPrior | None:
        """Prior of the sds of effects; None where there are none."""
        return self._prior_of_sds("group_prior")

    @property
    def sd_prior(self) -> GroupPrior | None:
        """Prior of the sd of the noise of numbers; None where it is no parameter."""
        return self._prior_of_sds(SD_PRIOR)

    def _prior_of_sds(self, attribute: str) -> GroupPrior | None:
        return group_prior_from_dict(json.loads(self.attrs[attribute])) if attribute in self.attrs else None

    @property
    def size(self) -> Any:
        """Draws of the family's number, such as the sd of noise, (S,); None where it is no parameter.

        Where there are two, a structured array of both.
        """
        return numbers_of_draws(self.numbers)

    @property
    def numbers(self) -> dict[str, FloatArray]:
        """Draws of the numbers of the family that are parameters, (S,) each, by what these are called."""
        return {name: self.variables[name] for name in number_names(self.attrs) if name in self.variables}

    @property
    def number(self) -> str:
        """What the family's number is called where it is a parameter, or both where there are two; empty else."""
        return " and ".join(self.numbers)

    @property
    def number_priors(self) -> dict[str, str]:
        """The priors of these numbers, in words."""
        words = {"sigma": str(self.sd_prior)} if self.sd_prior is not None else {}
        return {name: words.get(name) or str(self.attrs[SIZE_PRIOR]) for name in self.numbers}

    @property
    def family_at_draws(self) -> Family:
        """The family, for NumPy alone: its formulas take eta of shape (..., S), with the numbers of the draws."""
        return Predictor(self.flat, size=self.size).at_draws(self.family)

    def predictor(self, max_draws: int | None = None) -> Predictor:
        """Return the linear predictor at all draws, or at those of `thinned`; refuse draws without groups' effects."""
        at = None if max_draws is None else self.positions(max_draws)
        beta = self.flat if at is None else self.flat[at]
        size = self.size if self.size is None or at is None else self.size[at]
        self.check_effects_named()
        if not self.terms:
            return Predictor(beta, size=size)
        design = self.design
        groups = () if design is None else design.groups
        for name, shape in {name: shape for group in groups for name, shape in parameters(group).items()}.items():
            if name not in self.variables or self.variables[name].shape[1:] != shape:
                given = self.variables[name].shape[1:] if name in self.variables else "missing"
                raise DataError(f"{self.name} is of {self.terms}, and {name!r} is {given}, not of shape {shape}; give "
                                "what sample returned")  # fmt: skip
        if not groups:
            raise DataError(f"{self.name} is of {self.terms} and does not tell its groups; give what sample returned")
        return Predictor(beta, [Factor.of(group, self.variables) for group in groups], design, at, size)

    def check_effects_named(self) -> None:
        """Raise if its rows had groups, whose effects, of a model of one's own, have no names that are known."""
        if not self.terms and (design := self.design) is not None and design.groups:
            names = listed([name for group in design.groups for name in parameters(group)])
            raise DataError(
                f"{self.name} lacks the effects of {terms_text(design.groups)}: name them, their sds and correlations "
                f"as sample does, {names}"
            )

    @property
    def flat(self) -> FloatArray:
        """Draws of all chains below each other, shape (chain * draw, D)."""
        return self.draws.reshape(-1, self.draws.shape[2])

    def aligned(self, features: tuple[str, ...]) -> "Posterior":
        """Return the same draws with coordinates in the order of `features`, which must be the same names."""
        if self.features == features:
            return self
        missing = [name for name in features if name not in self.features]
        extra = [name for name in self.features if name not in features]
        if missing or extra:
            parts = [f"lacks {listed(missing)}"] * bool(missing) + [f"has the extra {listed(extra)}"] * bool(extra)
            raise DataError(
                f"{self.name}: {len(self.features)} features where {len(features)} are expected; "
                f"it {' and '.join(parts)}: compare posteriors of the same design matrix"
            )
        order = [self.features.index(name) for name in features]
        return replace(self, draws=self.draws[:, :, order], features=features)

    def thinned(self, max_draws: int) -> FloatArray:
        """Return at most `max_draws` draws, evenly spaced within each chain, shape (chain, draw, D)."""
        return self.draws[:, self._kept(max_draws)]

    def positions(self, max_draws: int) -> IntArray:
        """Return where in `flat` the draws of `thinned` stand, shape (S,)."""
        first = np.arange(len(self.draws), dtype=np.int64)[:, None] * self.draws.shape[1]
        return np.asarray((first + self._kept(max_draws)).ravel(), dtype=np.int64)

    def _kept(self, max_draws: int) -> IntArray:
        return evenly_spaced(self.draws.shape[1], max(max_draws // len(self.draws), 1))


def coefficients(idata: Any, name: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the draws of beta, shape (chain, draw, D), as they are, and the names of the D coordinates."""
    if not is_inference_data(idata):
        raise TypeError(
            f"{name} is of type {type(idata).__name__}; give InferenceData, as bayescore.sample returns "
            "or arviz.from_netcdf reads"
        )
    if "posterior" not in idata or "beta" not in idata["posterior"]:
        idata = as_sampled(idata)
    if "posterior" not in idata or "beta" not in idata["posterior"]:
        variables = list(idata["posterior"].data_vars) if "posterior" in idata else []
        raise DataError(
            f"{name} has no posterior draws of 'beta' (found: {listed(variables) or 'nothing'}); "
            "name the vector of coefficients 'beta'"
        )
    beta = idata["posterior"]["beta"]
    if len(beta.dims) != 3 or not {"chain", "draw"} < set(beta.dims):
        raise DataError(f"{name}: 'beta' has dims {beta.dims}; they must be chain, draw and feature")
    beta = beta.transpose("chain", "draw", ...)
    draws = np.ascontiguousarray(beta.values, dtype=np.float64)
    dim = beta.dims[2]
    return draws, tuple(str(value) for value in (beta[dim].values if dim in beta.coords else range(draws.shape[2])))


def with_own_model_attrs(idata: Any, core: Coreset) -> Any:
    """Return draws of a user's own model of a coreset with what `sample` would say about it: family, design, names.

    Draws that say so are returned as they are; `idata` stays as it is.
    """
    idata = as_sampled(idata)
    draws, features = coefficients(idata, "idata")
    source = idata["posterior"]
    if "design" in source.attrs or draws.shape[2] != core.n_features:
        return idata
    dim = next(str(name) for name in source["beta"].dims if name not in ("chain", "draw"))
    result, values = idata.copy(), as_xarray(source)
    if features == tuple(map(str, range(core.n_features))) and sum(dim in each.dims for each in values.values()) == 1:
        values = values.assign_coords({dim: list(core.feature_names)})
    about = {"family": core.family, "coreset": json.dumps(core.summary()), "design": json.dumps(core.design.to_dict())}
    if core.groups and all(name in values for grouping in core.groups for name in parameters(grouping)):
        about["group_terms"] = terms_text(core.groups)
    result["posterior"] = values.assign_attrs({**about, **values.attrs})
    return result


DESIGN_POSTERIOR = "design_posterior"
"""Group of draws as they were sampled, of the columns of the design, where `posterior` is in units of the data."""


def in_data_units(idata: Any, design: Design) -> Any:
    """Return draws whose group `posterior` is in units of the data's own columns: each coefficient once, first.

    Sds, correlations and effects of groups are in these units too. The draws as they were sampled are the group
    `DESIGN_POSTERIOR`, by which readers go; see `as_sampled`.
    """
    source = as_xarray(idata["posterior"])
    beta = source["beta"].transpose("chain", "draw", ...)
    raw = {"coef": beta.rename("coef").copy(data=np.array(design.raw_coefficients(beta.values)))}
    for grouping in design.groups:
        raw |= _raw_effects(source, grouping, design.raw_effects_map(grouping))
    rest = {str(name): value for name, value in source.data_vars.items() if name not in ("beta", *raw)}
    shown = {name: value for name, value in {**raw, **rest}.items() if not name.startswith("u_")}
    shown |= {name: value for name, value in {**raw, **rest}.items() if name not in shown}  # many, and so last
    made = xr.Dataset(shown, coords=source.coords, attrs={**source.attrs, "units": "the data's own columns"})
    return with_groups(idata, {"posterior": made, DESIGN_POSTERIOR: source})


def _raw_effects(source: xr.Dataset, grouping: Grouping, A: FloatArray) -> dict[str, xr.DataArray]:
    """Return sds, correlations and effects of a factor by name, those that A, shape (q, q), changes."""
    sigma, rho, u = (f"{kind}_{grouping.name}" for kind in ("sigma", "rho", "u"))
    if np.array_equal(A, np.eye(len(A))) or sigma not in source:
        return {}
    raw, q = dict[str, xr.DataArray](), len(A)
    drawn = {name: source[name].transpose("chain", "draw", ...) for name in (sigma, rho) if name in source}
    sds, correlation = raw_scales(grouping, A, {name: each.values for name, each in drawn.items()})
    for name, values in ((sigma, sds), (rho, correlation)):
        if name in source:
            raw[name] = drawn[name].copy(data=values.reshape(drawn[name].shape))
    if u in source:
        effects = source[u].transpose("chain", "draw", ...)
        raw[u] = effects.copy(data=effects.values @ A.T if q > 1 else effects.values * A[0, 0])
    return raw


def raw_scales(grouping: Grouping, A: FloatArray, draws: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Return sds, shape (S, q), and correlations of effects that A, shape (q, q), multiplies, given the effects'."""
    (i, j), sds = grouping.pairs, np.reshape(draws[f"sigma_{grouping.name}"], (-1, len(A)))
    covariance = A @ (sds[:, :, None] * correlations(grouping, draws) * sds[:, None, :]) @ A.T
    sd = np.sqrt(np.einsum("sqq->sq", covariance))
    return sd, covariance[:, i, j] / (sd[:, i] * sd[:, j])


def as_sampled(idata: Any) -> Any:
    """Return draws as they were sampled, of those that `in_data_units` returned; others as they are."""
    if not is_inference_data(idata) or DESIGN_POSTERIOR not in idata:
        return idata
    sampled = with_groups(idata, {"posterior": as_xarray(idata[DESIGN_POSTERIOR])})
    del sampled[DESIGN_POSTERIOR]
    return sampled


def flat_draws(idata: Any, name: str) -> FloatArray:
    """Return the draws of a variable, those of all chains below each other, shape (S, ...)."""
    values = idata["posterior"][name].transpose("chain", "draw", ...).values
    return np.asarray(values.reshape(-1, *values.shape[2:]), dtype=np.float64)


def _other_parameters(idata: Any) -> dict[str, FloatArray]:
    """Return the parameters of groups, and the number of the family, that the draws say are there."""
    names, attrs = [str(name) for name in idata["posterior"].data_vars], idata["posterior"].attrs
    of_groups = ("u_", "sigma_", "rho_") if "group_terms" in attrs or SMOOTH_SDS in attrs else ()
    numbers = number_names(attrs)
    return {name: flat_draws(idata, name) for name in names if name.startswith(of_groups) or name in numbers}


def is_between_fits(attrs: Mapping[str, Any]) -> bool:
    """Whether draws with these attributes are of the posterior between fits at some numbers (`fitting.size`)."""
    kind = SIZED.get(str(attrs.get("family", "")).partition("(")[0])
    return bool(number_names(attrs)) and kind is not None and issubclass(kind, Varying)


def numbers_of_draws(numbers: Mapping[str, FloatArray]) -> Any:
    """Return draws of a family's numbers as `Predictor.size` has them: one (S,), of two a structured array of both."""
    draws = list(numbers.values())
    if len(draws) < 2:
        return draws[0] if draws else None
    both = np.empty(len(draws[0]), dtype=[(name, np.float64) for name in numbers])
    for name, values in numbers.items():
        both[name] = values
    return both


def number_names(attrs: Mapping[str, Any]) -> list[str]:
    """Return what the numbers of a family are called in draws that have them as parameters."""
    names = []
    if SIZE_PRIOR in attrs and (kind := SIZED.get(str(attrs["family"]).partition("(")[0])) is not None:
        names.append(kind.parameter)
    return [*names, "sigma"] if SD_PRIOR in attrs else names


def read_posterior(idata: Any, name: str, *, min_draws: int = MIN_DRAWS) -> Posterior:
    """Read the posterior of the coefficients, the vector `beta`, out of InferenceData, and check its draws."""
    idata = as_sampled(idata)
    draws, features = coefficients(idata, name)
    if draws.shape[1] < min_draws or 0 in draws.shape:
        raise DataError(f"{name}: 'beta' has shape {draws.shape}; at least {min_draws} draws a chain are needed")
    if len(set(features)) < len(features):
        raise DataError(f"{name} has two features of the same name among {listed(features)}; rename one")
    bad = ~np.isfinite(draws).all(axis=(0, 1))
    if bad.any():
        raise DataError(
            f"{name}: draws of {listed(np.array(features)[bad].tolist())} are NaN or infinite; "
            "sample again, or drop the broken chain"
        )
    if np.abs(draws).max() > MAX_DRAW:
        raise DataError(
            f"{name} has draws above {MAX_DRAW:g} in size, whose powers overflow: the posterior may have no moments "
            "(separated labels, a prior with heavy tails); use a prior with lighter tails, or rescale the columns"
        )
    attrs = dict(idata["posterior"].attrs)
    stats, constant = idata.get("sample_stats", {}), idata.get("constant_data", {})
    weights = np.asarray(constant["weights"].values, dtype=np.float64) if "weights" in constant else None
    labels = np.asarray(constant["y"].values) if "y" in constant else None
    if labels is not None and "row" in constant["y"].coords and (constant["y"].coords["row"].values == NO_ROW).any():
        labels = None  # those of pseudo-rows are no share of anything
    log_density = np.asarray(stats["lp"].values, dtype=np.float64) if "lp" in stats else None
    posterior = Posterior(
        name,
        draws,
        features,
        divergences=int(stats["diverging"].sum()) if "diverging" in stats else None,
        acceptance_rate=float(stats["acceptance_rate"].mean()) if "acceptance_rate" in stats else None,
        weights=weights,
        positive=None if weights is None or labels is None else float(weights[labels > 0].sum() / weights.sum()),
        attrs=attrs,
        coreset=json_object(attrs.get("coreset", "{}"), _damaged_message(name, "coreset")),
        log_density=log_density if log_density is not None and log_density.shape == draws.shape[:2] else None,
        story=_read_story(attrs.get("posterior_of"), _damaged_message(name, "posterior_of")),
        has_offset="offset" in constant,
        variables=_other_parameters(idata),
    )
    design = posterior.design  # checks it
    if design is not None and design.groups and (effects := unkept_effects(idata, design)) is not None:
        posterior = replace(posterior, variables={**posterior.variables, f"u_{design.groups[0].name}": effects})
    return posterior


def _damaged_message(name: str, attribute: str) -> str:
    return f"{name}: the attribute {attribute!r} of its posterior is not what bayescore.sample wrote; sample again"


def _read_story(text: Any, problem: str) -> dict[str, Any]:
    if text is None:
        return {}
    story = json_object(text, problem)
    if not all(isinstance(story.get(key), str) for key in ("rows", "family", "draws")):
        raise DataError(problem)
    try:
        prior_from_dict(story["prior"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError(problem) from None
    return story


def creation_attrs() -> dict[str, str]:
    """Return the attributes of a group that bayescore makes, as ArviZ names them."""
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "bayescore",
        "inference_library_version": package_version(),
    }


@cache
def package_version() -> str:
    """Return bayescore's version; it is read from files, once."""
    return version("bayescore")


def draws_digest(draws: Any) -> str:
    """Return a SHA-256 of draws: `sample` keeps it, `certify` sees by it whether they were changed since."""
    return digest({}, {"draws": np.asarray(draws, dtype=np.float64)})


def has_fewer_draws(some: Any, others: Any) -> bool:
    """Whether one posterior has fewer draws than another."""

    def count(idata: Any) -> int:
        return int(idata.posterior.sizes["chain"] * idata.posterior.sizes["draw"])

    return count(some) < count(others)


def with_draws(idata: Any, posterior: xr.Dataset) -> Any:
    """Return other draws, in the place of those of `idata`, without what was true of these alone."""
    tree = idata.copy()
    for group in ("sample_stats", "constant_data", "warmup_posterior"):
        if group in tree:
            del tree[group]
    tree["posterior"] = posterior
    return tree


def write_posterior(idata: Any, path: str | Path) -> None:
    """Write a posterior to a netCDF file that ArviZ reads; an earlier file stays until the new one is whole."""
    with whole_file(path) as partial:
        write_inference_data(idata, str(partial))


def raise_if_interrupted(idata: Any, chains: int, draws: int) -> None:
    """Raise KeyboardInterrupt if draws are missing: `pm.sample` takes Ctrl-C for "enough" and returns what it has."""
    if (idata.posterior.sizes["chain"], idata.posterior.sizes["draw"]) != (chains, draws):
        raise KeyboardInterrupt


_MAX_UNPACKED_RATIO = 100.0  # to the size of a file: draws pack to a third, constant statistics to hardly anything


def load_posterior(path: str | Path) -> Any:
    """Read a posterior file; refuse one whose posterior `read_posterior` does not take."""
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r}: no such file")
    try:
        idata = read_inference_data(str(source), lambda size: check_packed(size, source, _MAX_UNPACKED_RATIO))
    except UnpacksError:
        raise
    except Exception as error:  # the readers below ArviZ raise many kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{str(source)!r} is not a posterior file ({reason}); write one with bayescore sample"
        ) from None
    read_posterior(idata, repr(str(source)))
    return idata


_DECISION_DRAWS = 500  # draws by which it is decided whether to move them, at least if there are so many


_MIN_SPREAD_RATIO = 2.0  # of the log ratio before and after a move of draws that are still far off after it


def move_to_full_data(idata: Any, core: Coreset, family: str, prior: Prior) -> str:
    """Move the draws of `beta` of a coreset's posterior; return the attribute that says so, or why they stay.

    They stay where what is left of the log ratio to the full data's posterior spreads by `MAX_LOG_RATIO_SD` or more,
    and by more than half of what it is without a move.
    """
    beta, resolved = idata.posterior["beta"].transpose("chain", "draw", ...), check_family(family)
    try:
        transport = to_full(core, resolved, prior)
    except StaysError as why:
        return f"no: {why}"
    some = beta.values[:, :: max(1, beta.sizes["chain"] * beta.sizes["draw"] // _DECISION_DRAWS)]
    before, left = left_over(core, resolved, prior, some.reshape(-1, core.n_features), transport)
    if not left < max(MAX_LOG_RATIO_SD, before / _MIN_SPREAD_RATIO):
        return f"no: mode and curvature say too little of the draws (sd of what is left {left:.2g} nats)"
    moved = np.ascontiguousarray(transport(beta.values))
    idata.posterior["beta"] = beta.copy(data=moved)
    for bends in prior.bends:
        sds = idata.posterior[bends.name].transpose("chain", "draw")
        idata.posterior[bends.name] = sds.copy(data=bends.moved_sds(sds.values, beta.values, moved))
    return MOVED


def transport_of_draws(posterior: Posterior, core: Coreset, family: Family) -> Transport | None:
    """Return the map by which `sample` moved draws of this coreset's posterior; None where it did not.

    Raises
    ------
    DataError
        If it moved them, and the coreset does not know where to.
    """
    story = posterior.story
    if not story.get("moved") or story["rows"] != core.rows_digest or story["family"] != family.name:
        return None
    try:
        return to_full(core, family, posterior.prior)
    except StaysError as why:
        raise DataError(
            f"{posterior.name}: its draws were moved {MOVED}, which this coreset does not know ({why}): give the "
            "coreset that was sampled, with its shortfall"
        ) from None
