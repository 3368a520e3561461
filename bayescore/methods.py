"""The methods of `build_coreset`: classes whose fields are their options."""

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.condensed import Condensed
from bayescore.coresets.leverage import Leverage
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.multilevel import Multilevel
from bayescore.coresets.online import Online
from bayescore.coresets.sensitivity import Sensitivity
from bayescore.coresets.uniform import Uniform

__all__ = [
    "Aggregate",
    "Calibrated",
    "Condensed",
    "Leverage",
    "MergeReduce",
    "Multilevel",
    "Online",
    "Sensitivity",
    "Uniform",
]
