"""`LogisticRegression().fit(X, y)`: probabilities, here with intervals."""

import pandas as pd
from sklearn.model_selection import train_test_split

import bayescore as bc

clicks = pd.read_csv("clicks.csv")
X, y = clicks[["age", "hours", "visits"]], clicks["clicked"].to_numpy()
parts = train_test_split(X.to_numpy(), y, random_state=0)
X_train, X_test, y_train, y_test = parts
fit = bc.fit(X_train, y_train, random_state=0)
print(fit)
print(fit.predict(X_test).head())
print(fit.check(X_test, y_test))
