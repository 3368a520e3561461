"""`smf.glm(..., family=Binomial())`, margins, clusters, the MLE."""

import pandas as pd

import bayescore as bc

clicks, formula = pd.read_csv("clicks.csv"), "clicked ~ age * device"
fit = bc.fit(formula, clicks, family="binomial", random_state=1)
print(fit.summary())
print(fit.slopes("age"))
print(fit.cluster_robust("county").summary())
mle = bc.find_mle(bc.all_rows(clicks, formula=formula))
table = {"coef": mle.beta, "std err": mle.sd}
print(pd.DataFrame(table, fit.coreset.feature_names))
