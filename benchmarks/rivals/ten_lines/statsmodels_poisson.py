"""`smf.poisson("visits ~ age + device", clicks, exposure=clicks["hours"]).fit()`, rate ratios, and other variances."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("visits ~ age + device", clicks, family="poisson", exposure="hours", random_state=1)
print(fit)
print(fit.summary(scale="rate"))
wider = bc.fit("visits ~ age + device + offset(log(hours))", clicks, family="negative_binomial(3)", random_state=1)
print(wider.summary())
