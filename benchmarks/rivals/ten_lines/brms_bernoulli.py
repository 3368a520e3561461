"""`brm(..., bernoulli(), prior)`, its odds ratios and `loo(fit)`."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
formula = "clicked ~ age * device + (1 | county)"
one, others = bc.priors.Normal(0, 1), bc.priors.Normal(0, 10)
options = {"prior": {"age": one, "*": others}, "random_seed": 1}
fit = bc.fit(formula, clicks, family="bernoulli", **options)
print(fit)
print(fit.summary(scale="odds"))
print(fit.loo())
