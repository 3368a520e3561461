"""`brm(clicked ~ age * device + (1 | county), bernoulli())`, its prior on one coefficient, odds ratios and loo."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
prior = {"age": bc.priors.Normal(0, 1), "*": bc.priors.Normal(0, 10)}
fit = bc.fit("clicked ~ age * device + (1 | county)", clicks, family="bernoulli", prior=prior, random_seed=1)
print(fit)
print(fit.summary(scale="odds"))
print(fit.loo())
