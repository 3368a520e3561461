"""Bayesian logistic and probit regression on data too large for MCMC.

The pipeline, in the order of the rooms:

1. *data*: arrays, data frames and Parquet files are read block by block, by a formula or as they are; `full_data` keeps
   all rows.
2. *coresets*: `build_coreset` shrinks them to a few hundred weighted rows, a `Coreset`, by a method: `Calibrated`,
   `Condensed`, `Aggregate`, `Leverage`, ...; `stream` does it for rows that come in blocks.
3. *models*: `logistic_model` and `probit_model` are PyMC models with a weighted potential;
   `weighted_potential` puts a coreset into a model of your own; `find_map` gives the mode,
   `find_mle` the maximum likelihood estimate.
4. *samplers*: `sample` draws from the posterior; `predict_proba`, `log_likelihood` and `posterior_predictive` follow
   from the draws, and so do `odds_ratios` and `average_predictions` by the levels of a factor; `poststratify` averages
   the predictions of cells over a population.
5. *diagnostics*: `certify` checks a coreset's posterior against the full data in two passes as a rule, and gives their
   elpd; `loo_compare` gives differences of models' elpds, `loo` what `arviz.compare` takes; `log_evidence` gives the
   marginal likelihood of both; `compare` shows with Monte Carlo errors how close posteriors are, and writes a report;
   `plot_caterpillar` and `plot_shrinkage` show effects of groups.
6. *estimators*: `CoresetLogisticRegression` and `CoresetProbitRegression` are scikit-learn classifiers.

>>> import bayescore as bc
>>> core = bc.build_coreset(X, y, size=1000, intercept=True, random_state=0)   # doctest: +SKIP
>>> idata = bc.sample(core, random_seed=1)                                     # doctest: +SKIP
>>> bc.compare({"coreset": idata}, reference=full).to_html("report.html")      # doctest: +SKIP
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescore.coresets.aggregate import Aggregate
    from bayescore.coresets.build import build_coreset, full_data
    from bayescore.coresets.calibrated import Calibrated
    from bayescore.coresets.condensed import Condensed
    from bayescore.coresets.leverage import Leverage
    from bayescore.coresets.merge_reduce import MergeReduce
    from bayescore.coresets.multilevel import Multilevel
    from bayescore.coresets.online import Online
    from bayescore.coresets.sensitivity import Sensitivity
    from bayescore.coresets.streaming import StreamingCoreset, stream
    from bayescore.coresets.uniform import Uniform
    from bayescore.data.coreset import Coreset, read_coreset
    from bayescore.diagnostics import Comparison, compare, mmd
    from bayescore.diagnostics.certificate import Certificate, certify
    from bayescore.diagnostics.effect_plots import plot_caterpillar, plot_shrinkage
    from bayescore.diagnostics.evidence import log_evidence
    from bayescore.diagnostics.loo import loo
    from bayescore.diagnostics.loo_compare import loo_compare
    from bayescore.estimators import CoresetLogisticRegression, CoresetProbitRegression
    from bayescore.models.graph import logistic_model, probit_model, weighted_potential
    from bayescore.models.group_priors import HalfNormal, HalfStudentT
    from bayescore.models.multilevel_graph import multilevel_model
    from bayescore.models.newton import find_map, find_mle
    from bayescore.models.priors import (
        Cauchy,
        Horseshoe,
        Laplace,
        MultivariateNormal,
        Normal,
        SpikeAndSlab,
        StudentT,
    )
    from bayescore.samplers.effects import average_predictions, odds_ratios
    from bayescore.samplers.poststratify import poststratify
    from bayescore.samplers.predict import log_likelihood, predict_proba
    from bayescore.samplers.predictive import posterior_predictive
    from bayescore.samplers.prior_summary import prior_summary
    from bayescore.samplers.sample import sample

__version__ = version("bayescore")

# imported on first use: PyMC and ArviZ take seconds
_HOMES = {
    "Aggregate": "coresets.aggregate",
    "Calibrated": "coresets.calibrated",
    "Condensed": "coresets.condensed",
    "Cauchy": "models.priors",
    "Comparison": "diagnostics",
    "Coreset": "data.coreset",
    "CoresetLogisticRegression": "estimators",
    "CoresetProbitRegression": "estimators",
    "Horseshoe": "models.priors",
    "Laplace": "models.priors",
    "Leverage": "coresets.leverage",
    "MergeReduce": "coresets.merge_reduce",
    "Multilevel": "coresets.multilevel",
    "MultivariateNormal": "models.priors",
    "HalfNormal": "models.group_priors",
    "HalfStudentT": "models.group_priors",
    "Normal": "models.priors",
    "Online": "coresets.online",
    "Sensitivity": "coresets.sensitivity",
    "SpikeAndSlab": "models.priors",
    "StreamingCoreset": "coresets.streaming",
    "StudentT": "models.priors",
    "Uniform": "coresets.uniform",
    "average_predictions": "samplers.effects",
    "build_coreset": "coresets.build",
    "certify": "diagnostics.certificate",
    "Certificate": "diagnostics.certificate",
    "compare": "diagnostics",
    "find_map": "models.newton",
    "find_mle": "models.newton",
    "full_data": "coresets.build",
    "log_evidence": "diagnostics.evidence",
    "log_likelihood": "samplers.predict",
    "logistic_model": "models.graph",
    "multilevel_model": "models.multilevel_graph",
    "loo": "diagnostics.loo",
    "loo_compare": "diagnostics.loo_compare",
    "mmd": "diagnostics",
    "odds_ratios": "samplers.effects",
    "plot_caterpillar": "diagnostics.effect_plots",
    "plot_shrinkage": "diagnostics.effect_plots",
    "posterior_predictive": "samplers.predictive",
    "poststratify": "samplers.poststratify",
    "predict_proba": "samplers.predict",
    "prior_summary": "samplers.prior_summary",
    "probit_model": "models.graph",
    "read_coreset": "data.coreset",
    "sample": "samplers.sample",
    "stream": "coresets.streaming",
    "weighted_potential": "models.graph",
}

__all__ = [
    "Aggregate",
    "Calibrated",
    "Cauchy",
    "Certificate",
    "Comparison",
    "Condensed",
    "Coreset",
    "CoresetLogisticRegression",
    "CoresetProbitRegression",
    "HalfNormal",
    "HalfStudentT",
    "Horseshoe",
    "Laplace",
    "Leverage",
    "MergeReduce",
    "Multilevel",
    "MultivariateNormal",
    "Normal",
    "Online",
    "Sensitivity",
    "SpikeAndSlab",
    "StreamingCoreset",
    "StudentT",
    "Uniform",
    "average_predictions",
    "build_coreset",
    "certify",
    "compare",
    "find_map",
    "find_mle",
    "full_data",
    "log_evidence",
    "log_likelihood",
    "logistic_model",
    "loo",
    "loo_compare",
    "mmd",
    "multilevel_model",
    "odds_ratios",
    "plot_caterpillar",
    "plot_shrinkage",
    "posterior_predictive",
    "poststratify",
    "predict_proba",
    "prior_summary",
    "probit_model",
    "read_coreset",
    "sample",
    "stream",
    "weighted_potential",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bayescore' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bayescore.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
