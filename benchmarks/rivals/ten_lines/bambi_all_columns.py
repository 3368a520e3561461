"""`bmb.Model(..., family="bernoulli").fit(draws=)`, then `interpret`."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")[["clicked", "age", "device", "hours"]]
options = {"draws": 500, "tune": 500, "chains": 4, "random_seed": 1}
fit = bc.fit("clicked ~ .", clicks, family="bernoulli", **options)
print(fit)
print(fit.comparisons("device"))
print(fit.average_predictions(by="device"))
print(fit.slopes("age", by="device"))
