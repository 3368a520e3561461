"""`smf.glm("clicked ~ age * device", clicks, family=Binomial()).fit()`, margins, and standard errors by clusters."""

import pandas as pd

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
fit = bc.fit("clicked ~ age * device", clicks, family="binomial", random_state=1)
print(fit.summary())
print(fit.slopes("age"))
print(fit.cluster_robust("county").summary())
full = bc.all_rows(clicks, formula="clicked ~ age * device")
print(pd.DataFrame({"coef": bc.find_mle(full).beta, "std err": bc.find_mle(full).sd}, full.feature_names))
