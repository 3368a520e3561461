"""`smf.poisson(..., exposure=)`, rate ratios, and a negative binomial."""

import pandas as pd

import bayescore as bc

clicks, formula = pd.read_csv("clicks.csv"), "visits ~ age + device"
options = {"exposure": "hours", "random_state": 1}
fit = bc.fit(formula, clicks, family="poisson", **options)
print(fit)
print(fit.summary(scale="rate"))
formula += " + offset(log(hours))"
family = "negative_binomial(3)"
print(bc.fit(formula, clicks, family=family, random_state=1).summary())
