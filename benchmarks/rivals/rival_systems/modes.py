"""The speed of a mode, which has no sds: scikit-learn and glum, penalties those of the prior."""

from collections.abc import Callable

from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows

VARIANCE = float(PRIOR.sigma) ** 2


def scikit_learn(rows: Rows, solver: str) -> Callable[[], Found]:
    """Minimise the penalised loss with the library's tolerance."""
    from sklearn.linear_model import LogisticRegression

    def run() -> Found:
        found = LogisticRegression(C=VARIANCE, fit_intercept=False, solver=solver).fit(rows.X, rows.y)
        return Found(found.coef_[0], passes=float(found.n_iter_[0]))

    return run


def glum(rows: Rows) -> Callable[[], Found]:
    """As above; glum divides the loss by N."""
    from glum import GeneralizedLinearRegressor

    def run() -> Found:
        N = len(rows.y)
        model = GeneralizedLinearRegressor(
            family="binomial", alpha=1.0 / (VARIANCE * N), l1_ratio=0, fit_intercept=False
        )
        found = model.fit(rows.X, (rows.y > 0).astype(float))
        return Found(found.coef_, passes=float(found.n_iter_))

    return run


SKLEARN = {
    "lbfgs": lambda rows: scikit_learn(rows, "lbfgs"),
    "newton-cholesky": lambda rows: scikit_learn(rows, "newton-cholesky"),
}
GLUM = {"irls": glum}
