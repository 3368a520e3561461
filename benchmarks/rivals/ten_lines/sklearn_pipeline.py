"""A pipeline with a `StandardScaler`, cross-validated, and a search."""

import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
X, y = clicks[["age", "hours", "visits"]], clicks["clicked"]
options = {"prior": bc.priors.Normal(0, 2.5), "random_state": 0}
model = bc.CoresetLogisticRegression(draws=250, **options)
pipeline = make_pipeline(StandardScaler(), model)
print(cross_val_score(pipeline, X, y, cv=3, scoring="roc_auc").round(2))
grid = {"prior__sigma": [0.1, 2.5]}
search = GridSearchCV(model, grid, cv=3, scoring="neg_log_loss").fit(X, y)
print(search.best_params_, search.best_estimator_.certificate_.level)
