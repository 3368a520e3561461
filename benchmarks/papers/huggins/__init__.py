"""Huggins, Campbell and Broderick (2016), coresets for Bayesian logistic regression: its figures and theorems."""

from collections.abc import Callable

from benchmarks.papers.huggins import data_sets, guarantees, lower_bounds, mixture_bounds, quality, sensitivities, times

COMMANDS: dict[str, Callable[..., None]] = {
    "huggins_data": data_sets.main,
    "huggins_lower_bounds": lower_bounds.main,
    "huggins_mixture_bounds": mixture_bounds.main,
    "huggins_sensitivities": sensitivities.main,
    "huggins_times": times.main,
    "huggins_guarantees": guarantees.main,
    "huggins_quality": quality.main,
}
