"""`glmer(... + (1 + x || g), family = binomial)`, ranef and VarCorr."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
terms = "scale(age) + device + (1 + scale(age) || county)"
formula = f"clicked ~ {terms}"
fit = bc.fit(formula, clicks, family="binomial", random_state=1)
print(fit)
print(fit.effects("county").head())
print(fit.icc())
