"""`LogisticRegression().fit(X_train, y_train)` and its probabilities, each here with an interval."""

import pandas as pd
from sklearn.model_selection import train_test_split

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
X, y = clicks[["age", "hours", "visits"]].to_numpy(), clicks["clicked"].to_numpy()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
fit = bc.fit(X_train, y_train, random_state=0)
print(fit)
print(fit.predict(X_test).head())
print(fit.check(X_test, y_test))
