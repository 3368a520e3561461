"""The methods that stand on their own, one line each, and those of them that can reduce the nodes of a tree."""

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.condensed import Condensed
from bayescore.coresets.leverage import Leverage
from bayescore.coresets.method import Method, Reducer
from bayescore.coresets.multilevel import Multilevel
from bayescore.coresets.online import Online
from bayescore.coresets.sensitivity import Sensitivity
from bayescore.coresets.uniform import Uniform

_KINDS: tuple[type[Method], ...] = (
    Uniform,
    Calibrated,
    Condensed,
    Sensitivity,
    Leverage,
    Online,
    Aggregate,
    Multilevel,
)

SINGLE: dict[str, type[Method]] = {kind.name: kind for kind in _KINDS}
REDUCERS = {name: kind for name, kind in SINGLE.items() if issubclass(kind, Reducer)}
