"""`bmb.Model("clicked ~ ...", family="bernoulli").fit(draws=, tune=, random_seed=)`, then interpret's comparisons."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")[["clicked", "age", "device", "hours"]]
fit = bc.fit("clicked ~ .", clicks, family="bernoulli", draws=500, tune=500, chains=4, random_seed=1)
print(fit)
print(fit.comparisons("device"))
print(fit.average_predictions(by="device"))
print(fit.slopes("age", by="device"))
