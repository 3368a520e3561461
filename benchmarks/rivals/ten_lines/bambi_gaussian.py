"""`bmb.Model("spent ~ age + (1 | county)", family="gaussian")`, and ArviZ's summary of the draws that it returns."""

import arviz as az
import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("spent ~ age + device + (1 | county)", clicks, family="gaussian", draws=500, random_seed=1)
print(fit)
print(az.summary(fit.idata, var_names=["coef"]))
print(fit.predict(clicks.head(3)))
