"""`make_pipeline(StandardScaler(), LogisticRegression())` in a cross-validation and in a search."""

import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
X, y = clicks[["age", "hours", "visits"]], clicks["clicked"]
classifier = bc.CoresetLogisticRegression(prior=bc.priors.Normal(0, 2.5), draws=250, random_state=0)
print(cross_val_score(make_pipeline(StandardScaler(), classifier), X, y, cv=3, scoring="roc_auc").round(2))
search = GridSearchCV(classifier, {"prior__sigma": [0.1, 2.5]}, cv=3, scoring="neg_log_loss").fit(X, y)
print(search.best_params_, search.best_estimator_.certificate_.level)
