"""`lmer(spent ~ age + device + (1 | county), clicks)`, its ranef, intraclass correlation and predictions."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("spent ~ age + device + (1 | county)", clicks, family="gaussian", random_state=1)
print(fit)
print(fit.effects("county").head())
print(fit.icc())
print(fit.predict(pd.DataFrame({"age": [30], "device": ["phone"], "county": ["a new one"]})))
