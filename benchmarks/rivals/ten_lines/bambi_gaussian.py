"""`bmb.Model(..., family="gaussian")`, with `az.summary` of its draws."""

import arviz as az
import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
formula = "spent ~ age + device + (1 | county)"
fit = bc.fit(formula, clicks, family="gaussian", draws=500, random_seed=1)
print(fit)
print(az.summary(fit.idata, var_names=["coef"]).iloc[:, :4])
print(fit.predict(clicks.head(3)))
