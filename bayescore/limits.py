"""The limits that decide verdicts, certificates and warnings: each once, with its unit and its reason.

Rooms import them from here, so that a word in a report, a warning of a sampler and the text that explains them cannot
disagree. Tolerances of algorithms (of a solver, of a rank) stand with their algorithm.

References: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718 (R-hat, effective
sample sizes); Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25 (k-hat).
"""

MAX_LEVELS = 200
"""Levels of a column of text above which it is not coded without a formula: each is a coefficient, and an identifier
is more likely than a factor."""

MAX_LEVELS_NAMED = 2000
"""Levels of a factor that a formula names: the columns of a dense design matrix up to which passes stay fast."""

MAX_LEVEL_SHARE = 0.8
"""Levels of a factor over rows of one label each, above which nearly every row has its own: an identifier, or text."""

MAX_EXACT = 2**53
"""Whole numbers from which floats do not tell one from the next."""

MIN_NUMBER_LEVELS = 10
"""Levels of a column of text from which it is asked whether they are numbers: fewer are often scores or classes."""

MIN_NUMBER_SHARE = 0.9
"""Share of the levels of a column of text that are numbers, from which the others are taken to be errors of entry."""

PROB = 0.95
"""Probability of all intervals, where `prob=` gives no other."""

ENDS = (0.5 * (1.0 - PROB), 0.5 * (1.0 + PROB))
"""Probabilities of their ends, equal-tailed."""

MAX_RHAT = 1.01
"""Rank-normalised split R-hat above which chains have not mixed (Vehtari et al. 2021)."""

MIN_DRAWS = 4
"""Draws of a chain below which R-hat and effective sample sizes are not defined: halves need two each."""

MIN_ESS = 400
"""Effective draws of all chains together, bulk and tail, below which R-hat and standard errors cannot be relied on
(Vehtari et al. 2021)."""

MIN_ESS_A_CHAIN = 100
"""Effective draws of one chain that a sampler warns below: `MIN_ESS` over the usual four chains."""

MAX_DRAWS = 20_000
"""Draws of a chain above which no text asks for more, and `fit` takes no more: chains that need them hardly move."""

MIN_ESS_EVIDENCE = 100.0
"""Effective importance draws below which the logarithm is not straight over the evidence's error (delta method)."""

MIN_ESS_SHARE = 0.2
"""Share of the draws that importance weights must leave effective for a correction to be trusted."""

MAX_K = 0.7
"""Pareto k-hat above which importance weights cannot be trusted (Vehtari et al. 2024)."""

FINITE_K = 0.5
"""Pareto k-hat below which importance weights have a finite variance, and their standard errors mean something."""

MAX_BAD_K_SHARE = 0.01
"""Share of the rows left out whose k-hat may exceed `MAX_K`: above it there is no elpd."""

EQUAL_WEIGHTS_SD = 1e-4
"""Sd of log weights below which they are equal but for rounding, and have no tail to fit."""

NEARLY_EQUAL_WEIGHTS_SD = 0.05
"""Sd of log weights below which the shape of their tail, fitted all the same, says nothing about a posterior."""

MAX_LOG_RATIO_SD = 0.5
"""Sd of the log ratio of two posteriors from which they are not said to be the same: 0.3 is close, 1 far."""

NEGLIGIBLE_ERROR = 0.1
"""Error of a mean in reference sds, of an sd relatively, or of a correlation that a reader need not mind."""

MAX_ERROR = 0.25
"""Error of a mean in sds, of an sd relatively, of a correlation, or of a tail quantile (in sds, or relative to its
distance from the median if that is more than an sd) that is not certified any more."""

MAX_FAILURE_PROBABILITY = 1e-3
"""Chance that some mean, sd or correlation of certified, or corrected, draws is off by more than `MAX_ERROR`, by the
stated standard errors: half of one in 500, as these are estimates."""

NEGLIGIBLE_CORRECTION = 0.02
"""What importance weights may change beyond noise, in the units of `MAX_ERROR`, in moved draws that are left as they
are: a twelfth of what is not certified, below what 2,000 draws can tell."""

MAX_SUM_ERROR = 0.02
"""Standard error, in nats, of differences of a log-likelihood that a sample of the rows may have: it changes importance
weights by 2%, and no mean by more than 0.02 sd."""

MAX_TAIL_K = 0.5
"""Pareto k-hat of a coordinate's own tail above which its variance does not exist; above 1, nor does its mean."""

MAX_SD_OVER_QUARTILES = 1.5
"""Sd of a coefficient beside few levels over what its quartiles say, from which its tails decide the sd: that of a
Student t of 3 degrees of freedom, as the prior of the sds of effects is."""

MAX_LOG_SD_OVER_QUARTILES = 1.2
"""Sd of the logarithm of an sd of effects over what its quartiles say, from which its left tail decides the sd: 1 of a
normal, 1.1 of a Gumbel, 1.23 of an exponential distribution. Sds of effects near 0 have 1.3 to 1.8."""

FAMILYWISE_ALPHA = 0.01
"""Probability that exact draws, or an exact prediction, are said to be off, over all coefficients together."""

MAX_DISPERSION = 1.2
"""Dispersion of counts above which they are called overdispersed: intervals are then a tenth too narrow."""

MAX_SD_RATIO = 1.02
"""Residual sd over the sd given for normal noise, or its inverse, above which the residuals' is to be given."""

MAX_TOTAL_WEIGHT = 1e15
"""Sum of the weights, and so of any, above which rows are refused: a fitted mode is off by 1.1e-9 sqrt(weight)
posterior sds, from rounding (measured, 5 columns: 0.02 sd at 4e14, 2 sd at 4e18); weights are then meant relatively."""

MAX_OFFSET = 1e4
"""Size of an offset up to which likelihoods are finite (`families.Family`); more is an exposure, not its logarithm."""

MAX_NUMBER = 1e24
"""Size of a response that is a number: that of draws in its units is limited, as their powers overflow."""

MAX_FAR = 1e10
"""Size of responses over their range, above which rounding errors show: log densities of draws differ from their own
(measured: none at 7e9, not certified at 7e10)."""

GROUP_BYTES = 400
"""Bytes, about, that a level of a grouping factor takes while levels are learnt, looked up and written."""

MAX_GROUPS_BYTES = 1 << 30
"""Bytes that the levels of a grouping factor may take: 2.7 million groups."""

MIN_CLUSTERS = 40
"""Clusters less strata below which a cluster-robust sd is uncertain by more than a tenth: 1 / sqrt(2 (G - H))."""

MIN_STRETCH = 0.3
"""Ratio of a cluster-robust sd to that of independent rows, of any combination of coefficients, below which it is said
to be small: more often due to a column that tells one cluster from all others than to rows that balance each other."""

MAX_MOVE = 1.0
"""Cluster-robust sds that the prior may move the mode by, given that spread in place of the model's: score and
curvature are known at one point."""

MAX_PRIOR_SHARE = 0.3
"""Posterior sd of a coefficient over its prior's scale from which the prior is said to decide much: at 0.3 it has a
tenth of the information on the coefficient."""

MAX_ROWS_BYTES = 2 << 30
"""Bytes of the matrix of all rows, above which no build or fit takes them all without being asked: samplers copy it."""

MAX_PULL = 2.0
"""Nats of log likelihood by which the prior may move the mode without a word: two sds of one coefficient, where a 95%
interval of the data alone ends."""

MIN_MEAN_WEIGHT = 0.1
"""Mean weight of rows below which a fit says that weights leave much to the prior: shares of a total are 1 / n."""
