"""`lmer(spent ~ age + device + (1 | county))`, ranef, icc, predict."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
formula = "spent ~ age + device + (1 | county)"
fit = bc.fit(formula, clicks, family="gaussian", random_state=1)
print(fit)
print(fit.effects("county").head())
print(fit.icc())
new = {"age": [30], "device": ["phone"], "county": ["a new one"]}
print(fit.predict(pd.DataFrame(new)))
