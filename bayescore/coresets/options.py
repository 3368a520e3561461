"""The methods of `build_coreset` and which options go with them, checked before the rows are read."""

import inspect
from typing import Any

from bayescore.coresets.leverage import SCORES, check_project
from bayescore.coresets.leverage_coreset import leverage_coreset
from bayescore.coresets.reduce import MAX_LEAF, check_reduction
from bayescore.coresets.sensitivity import D_MEANS, sensitivity_coreset
from bayescore.models.priors import SPIKE_AND_SLAB, check_prior
from bayescore.validation import check_choice, check_integer, check_positive

METHODS = ("auto", "uniform", "sensitivity", "leverage", "online", "merge_reduce", "calibrated", "aggregate")


def _keywords(builder: Any) -> list[str]:
    return [p.name for p in inspect.signature(builder).parameters.values() if p.kind is p.KEYWORD_ONLY]


def check_options(method: str, link: str, size: object, options: dict[str, Any]) -> None:
    """Raise if the options do not fit the method, or the method does not fit the likelihood or the size."""
    if method == "sensitivity" and link != "logistic":
        raise ValueError(
            f"method='sensitivity' bounds the logistic likelihood only; likelihood={link!r}: use 'calibrated'"
        )
    calibrated = ["prior", "tolerance"]
    allowed = {
        "sensitivity": _keywords(sensitivity_coreset),
        "leverage": _keywords(leverage_coreset),
        "merge_reduce": ["reduce", "mu", "leaf_rows"],
        "calibrated": calibrated,
        "auto": calibrated,
    }.get(method, [])
    for name in options:
        if name not in allowed:
            takes = ", ".join(allowed) or "no options"
            raise TypeError(f"{name!r} is not an option of method={method!r}, which takes {takes}")
    if size != "auto":
        if method == "aggregate":
            raise ValueError(f"method='aggregate' keeps every distinct row and takes no size; size={size!r} was given")
        check_integer(size, "size", low=1)
        for name in ("epsilon", "tolerance"):
            if name in options:
                raise ValueError(f"size={size} and {name}={options[name]} are both given; give one of them")
    clustering = options.get("clustering")
    if isinstance(clustering, str):
        check_choice(clustering, "clustering", [D_MEANS])
    elif options.get("clusters") is not None and clustering is not None:
        raise ValueError("clusters and clustering are both given; give one of them")
    if options.get("prior") is not None and check_prior(options["prior"]).family in (None, SPIKE_AND_SLAB):
        raise ValueError(
            f"prior={options['prior']} has more than one mode or no density in closed form; leave prior out: only the "
            "likelihood is calibrated, and the coreset serves other priors"
        )
    for name in ("delta", "mu"):
        if name in options and "epsilon" not in options and method != "merge_reduce":
            raise ValueError(f"{name}={options[name]} is given without epsilon; give both, or a size")
    for name in ("epsilon", "delta", "tolerance"):
        if name in options:
            options[name] = check_positive(options[name], name, below=0.5 if method == "leverage" else 1.0)
    if method == "leverage":
        _check_leverage(link, options)
    elif method == "merge_reduce":
        check_reduction(options.get("reduce", "calibrated"), link, 1, options.get("mu"))
        if options.get("leaf_rows") is not None:
            options["leaf_rows"] = check_integer(options["leaf_rows"], "leaf_rows", low=1, high=MAX_LEAF)


def _check_leverage(link: str, options: dict[str, Any]) -> None:
    scores = check_choice(options.get("scores", "exact"), "scores", SCORES)
    check_project(options.get("project", False), scores)
    if "epsilon" not in options:
        return
    epsilon = options["epsilon"]
    if link != "probit":
        raise ValueError(
            f"epsilon={epsilon:g}: leverage scores bound the sensitivities of the probit likelihood only; give a size, "
            f"or for likelihood={link!r} method='sensitivity'"
        )
    if scores != "exact":
        raise ValueError(f"epsilon={epsilon:g} needs bounds, and scores={scores!r} are estimates; give a size")
    if "mu" not in options:
        raise ValueError(f"epsilon={epsilon:g} needs mu, the complexity of the data; give both, or a size")
    if not check_positive(options["mu"], "mu") >= 1.0:
        raise ValueError(f"mu={options['mu']:g} must be at least 1, as for all data")
