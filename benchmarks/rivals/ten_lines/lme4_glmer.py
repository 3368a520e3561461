"""`glmer(clicked ~ scale(age) + device + (1 + scale(age) || county), family = binomial)`, with ranef and VarCorr."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("clicked ~ scale(age) + device + (1 + scale(age) || county)", clicks, family="binomial", random_state=1)
print(fit)
print(fit.effects("county").head())
print(fit.icc())
