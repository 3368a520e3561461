"""The methods that stand on their own; trees reduce by those of them that are fit for it."""

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.condensed import Condensed
from bayescore.coresets.leverage import Leverage
from bayescore.coresets.method import Method
from bayescore.coresets.multilevel import Multilevel
from bayescore.coresets.online import Online
from bayescore.coresets.sensitivity import Sensitivity
from bayescore.coresets.uniform import Uniform

SINGLE: dict[str, type[Method]] = {
    "uniform": Uniform,
    "calibrated": Calibrated,
    "condensed": Condensed,
    "sensitivity": Sensitivity,
    "leverage": Leverage,
    "online": Online,
    "aggregate": Aggregate,
    "multilevel": Multilevel,
}
