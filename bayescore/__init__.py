"""Bayesian regression of yes/no data, counts and numbers on data too large for MCMC.

`fit` takes the whole way from rows to certified draws; `Fit` answers questions of them, and `read_fit` reads one from
files. The pipeline behind it, in the order of the rooms:

1. *data*: arrays, data frames and Parquet files are read block by block, by a formula or as they are; `all_rows` keeps
   all rows.
2. *coresets*: `build_coreset` shrinks them to a few hundred weighted rows, a `Coreset`, by one of the `methods`;
   `stream` does it for rows that come in blocks.
3. *models*: `model` is a PyMC model with a weighted potential;
   `weighted_potential` puts a coreset into a model of your own; `find_map` gives the mode,
   `find_mle` the maximum likelihood estimate. `priors` has those of coefficients and of the sds of groups.
4. *samplers*: `sample` draws from the posterior; `Fit.from_draws` answers of such draws what a fit answers.
5. *diagnostics*: `certify` checks a coreset's posterior against the full data in one pass as a rule, and gives their
   elpd. `loo_compare` gives differences of models' elpds, `log_evidence` the marginal likelihood of both.
   `compare_posteriors` shows with Monte Carlo errors how close posteriors are, and writes a report.
6. *estimators*: `CoresetLogisticRegression` and `CoresetProbitRegression` are scikit-learn classifiers.

`datasets` has data to try things on, `papers` what only the tables of papers need.

>>> import bayescore as bc
>>> bc.fit("clicked ~ age + (1 | county)", "rows.parquet").summary()           # doctest: +SKIP
>>> core = bc.build_coreset(X, y, size=1000, intercept=True, random_state=0)   # doctest: +SKIP
>>> idata = bc.sample(core, random_seed=1)                                     # doctest: +SKIP
>>> bc.compare_posteriors({"coreset": idata}, reference=full).to_html("report.html")      # doctest: +SKIP
"""

from importlib.metadata import version

import lazy_loader

# imported on first use, from where __init__.pyi says: PyMC and ArviZ take seconds
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = version("bayescore")
