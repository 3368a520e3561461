"""`brm(k | trials(n) ~ ..., binomial())`, `posterior_epred`."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
formula = "bought | trials(offers) ~ age + (1 | county)"
fit = bc.fit(formula, clicks, family="binomial", chains=4, random_seed=1)
print(fit.prior_summary())
print(fit.summary())
new = pd.DataFrame({"age": [25, 60], "county": ["c03", "another"]})
print(fit.predict(new))
