"""`brm(bought | trials(offers) ~ age + (1 | county), binomial())`, its priors and posterior_epred of new rows."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("bought | trials(offers) ~ age + (1 | county)", clicks, family="binomial", chains=4, random_seed=1)
print(fit.prior_summary())
print(fit.summary())
new = pd.DataFrame({"age": [25, 60], "county": ["c03", "another"]})
print(fit.predict(new))
