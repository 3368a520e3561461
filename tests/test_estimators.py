from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayescore as bc

QUICK = {"draws": 300, "tune": 100, "chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(50, 10, 4000), "dose": rng.exponential(0.01, 4000), "x": rng.normal(size=4000)})
    eta = 0.05 * (X["age"] - 50) + 80 * X["dose"] - 0.5 * X["x"] - 1
    return X, np.where(eta + rng.logistic(size=4000) > 0, "yes", "no")


@parametrize_with_checks([bc.CoresetLogisticRegression(**QUICK), bc.CoresetProbitRegression(**QUICK)])
@pytest.mark.filterwarnings("ignore:column .* is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:.*of the coreset have one label:UserWarning")
@pytest.mark.filterwarnings("ignore:the labels (are|may be) completely separated:UserWarning")
def test_keeps_scikit_learns_conventions(estimator: Any, check: Any) -> None:
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        pytest.skip("wants equal draws; see test_weights_count_as_copies")
    check(estimator)


def test_weights_count_as_copies() -> None:
    rng = np.random.default_rng(1)
    X, y, w = rng.normal(size=(300, 2)).round(1), rng.integers(2, size=300), rng.integers(4, size=300)
    weighted = bc.CoresetProbitRegression(**QUICK).fit(X, y, sample_weight=w)
    repeated = bc.CoresetProbitRegression(**QUICK).fit(X.repeat(w, axis=0), y.repeat(w))
    modes = [bc.find_map(model.coreset_).beta for model in (weighted, repeated)]
    np.testing.assert_allclose(*modes, rtol=1e-9)  # the draws differ: rows come in another order, with other rounding


def test_coefficients_are_in_raw_units(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    model = bc.CoresetLogisticRegression(size=400, **QUICK).fit(X, y)
    scale = X.std().to_numpy()
    plain = LogisticRegression(C=np.inf, max_iter=1000).fit((X - X.mean()) / scale, y)
    # a posterior sd is about 0.04 of these units
    np.testing.assert_allclose(model.coef_ * scale, plain.coef_, atol=0.08)
    np.testing.assert_allclose(model.intercept_ + model.coef_ @ X.mean().to_numpy(), plain.intercept_, atol=0.08)
    assert list(model.feature_names_in_) == ["age", "dose", "x"]


@pytest.mark.parametrize("kind", [bc.CoresetLogisticRegression, bc.CoresetProbitRegression])
def test_predicts_as_the_functions_do(kind: Any, rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    model = kind(size=400, **QUICK).fit(X, y)
    assert model.coreset_.family in kind.__name__.lower()
    p = bc.predict(model.idata_, X)["mean"]
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], p)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), np.log(p / (1.0 - p)), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(model.decision_function(X) > 0.0, model.predict(X) == "yes")
    assert set(model.predict(X)) == {"no", "yes"}
    assert abs((model.predict_proba(X)[:, 1]).mean() - (y == "yes").mean()) < 0.02
    assert bc.certify(model.idata_, model.coreset_, X, y, progressbar=False).level == "certified"


def test_works_in_pipelines_and_searches(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), bc.CoresetLogisticRegression(size=500, **QUICK))
    score = cross_val_score(pipeline, X, y, cv=2, scoring="neg_log_loss").mean()
    share = (y == "yes").mean()
    assert score > share * np.log(share) + (1 - share) * np.log1p(-share)
    search = GridSearchCV(
        bc.CoresetLogisticRegression(size=300, **QUICK),
        {"prior": [bc.priors.Normal(0, 4), bc.priors.Normal(0, 0.01)]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(X, y)
    assert search.best_params_["prior"] == bc.priors.Normal(0, 4)


def test_no_rows_are_refused_as_scikit_learn_refuses_them(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    fitted = bc.CoresetLogisticRegression(**QUICK).fit(X, y)
    for predict in (fitted.predict, fitted.predict_proba, fitted.predict_log_proba, fitted.decision_function):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            predict(X.iloc[:0])


def test_weights_of_zero_leave_rows_out(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    first = np.arange(len(y)) < 2000
    weighted = bc.CoresetProbitRegression(size=300, **QUICK).fit(X, y, sample_weight=first)
    alone = bc.CoresetProbitRegression(size=300, **QUICK).fit(X[first], y[first])
    np.testing.assert_array_equal(weighted.coef_, alone.coef_)


def test_wrong_settings_are_named(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="method"):
        bc.CoresetLogisticRegression(method="best").fit(*rows)
    with pytest.raises(ValueError, match="Only binary classification"):
        bc.CoresetLogisticRegression().fit(rows[0], np.arange(4000) % 3)


@pytest.mark.parametrize("prior", [None, bc.priors.Normal(0.0, 0.01)], ids=["default", "given"])
def test_searches_reach_the_priors_parameters(prior: Any, rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    search = GridSearchCV(
        bc.CoresetLogisticRegression(prior=prior, size=300, **QUICK),
        {"prior__sigma": [0.01, 2.0]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(*rows)
    assert search.best_params_ == {"prior__sigma": 2.0}
    assert search.best_estimator_.prior == bc.priors.Normal(0.0, 2.0)
    assert search.estimator.prior == prior  # frozen: as it was
    assert "Normal(mu=0.0, sigma=2.0)" in search.best_estimator_.idata_.posterior.attrs["prior"]


def test_parameters_of_priors_are_settings() -> None:
    model = bc.CoresetProbitRegression(prior=bc.priors.StudentT(4, sigma=1.0))
    assert {"prior__nu": 4, "prior__mu": 0.0, "prior__sigma": 1.0}.items() <= model.get_params().items()
    assert "prior__nu" not in model.get_params(deep=False)
    again = clone(model).set_params(prior__nu=7, size=50)
    assert (again.prior, again.size, model.prior) == (
        bc.priors.StudentT(7, sigma=1.0),
        50,
        bc.priors.StudentT(4, sigma=1.0),
    )
    assert model.set_params(prior=bc.priors.Laplace(), prior__b=3.0).prior == bc.priors.Laplace(b=3.0)
    with pytest.raises(ValueError, match=r"prior__scale is no parameter of Laplace.*, which has mu, b"):
        model.set_params(prior__scale=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


def test_masks_and_other_indexes_are_not_dropped(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    with pytest.raises(ValueError, match="y has another index than X"):
        bc.CoresetLogisticRegression(**QUICK).fit(X, pd.Series(y, index=X.index[::-1]))
    masked = np.ma.masked_array(y == "yes", mask=np.arange(len(y)) == 3)
    with pytest.raises(ValueError, match="y is a masked array"):
        bc.CoresetLogisticRegression(**QUICK).fit(X, masked)


def test_log_odds_are_finite_where_probabilities_are_not_to_be_told_from_one(
    rows: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = rows
    model = bc.CoresetLogisticRegression(size=400, **QUICK).fit(X, y)
    far = pd.DataFrame([[0.0, 10.0, 0.0], [0.0, -10.0, 0.0]], columns=X.columns)  # eta of some +-800
    np.testing.assert_allclose(model.predict_proba(far), [[0.0, 1.0], [1.0, 0.0]], atol=1e-15)
    odds, (up, down) = model.decision_function(far), model.predict_log_proba(far)
    assert odds[0] > 300.0
    assert odds[1] < -300.0
    np.testing.assert_allclose([up[1], down[0]], 0.0, atol=1e-300)
    beta = model.idata_.posterior["beta"].values.reshape(-1, 4)
    eta = beta @ model.coreset_.design.transform(far.to_numpy()).T
    least = np.logaddexp.reduce(-np.logaddexp(0.0, [1.0, -1.0] * eta), axis=0) - np.log(len(beta))
    np.testing.assert_allclose([up[0], down[1]], least, rtol=1e-9)


def test_columns_keep_their_names(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    pipeline = make_pipeline(PolynomialFeatures(1, include_bias=False), bc.CoresetLogisticRegression(size=300, **QUICK))
    model = pipeline.set_output(transform="pandas").fit(X, y)[-1]
    assert list(model.feature_names_in_) == ["age", "dose", "x"]
    assert model.coreset_.feature_names == ("Intercept", "age", "dose", "x")
    assert list(model.idata_.posterior["beta"]["feature"].values) == ["Intercept", "age", "dose", "x"]
    bare = bc.CoresetLogisticRegression(size=300, **QUICK).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(bare.coef_, model.coef_)
    assert bare.coreset_.feature_names == ("Intercept", "x0", "x1", "x2")
    own = model.fit(X.set_axis(["weight", "y", "Intercept"], axis=1), y)
    assert own.coreset_.feature_names == ("Intercept", "weight_", "y_", "Intercept_")
    np.testing.assert_array_equal(own.coef_, bare.coef_)


def test_weights_of_classes_multiply_those_of_rows(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    w = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    given = bc.CoresetLogisticRegression(size=300, class_weight={"no": 2.0, "yes": 0.5}, **QUICK).fit(X, y, w)
    same = bc.CoresetLogisticRegression(size=300, **QUICK).fit(X, y, w * np.where(y == "no", 2.0, 0.5))
    np.testing.assert_array_equal(given.coef_, same.coef_)
    plain = bc.CoresetLogisticRegression(size=300, **QUICK).fit(X, y, w)
    assert abs(given.intercept_ - plain.intercept_) > 1.0  # log 4, at the columns' means
    model = bc.CoresetProbitRegression(size=300, class_weight="balanced", **QUICK).fit(X, y, w)
    assert model.coreset_.weight_total == pytest.approx(w.sum())
    source = model._class_weights(y, w) * w
    assert source[y == "yes"].sum() == pytest.approx(source[y == "no"].sum())
    with pytest.raises(ValueError, match="class_weight"):
        bc.CoresetLogisticRegression(class_weight={"maybe": 2.0}, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        bc.CoresetLogisticRegression(class_weight="even", **QUICK).fit(X, y)


def test_weights_of_rows_are_routed_through_pipelines_and_searches(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    w = np.where(y == "yes", 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        model = bc.CoresetLogisticRegression(size=300, **QUICK).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(PolynomialFeatures(1, include_bias=False), model)
        # a scorer, since `Pipeline.score` routes weights from scikit-learn 1.8 on only
        accuracy = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        sigmas = {"coresetlogisticregression__prior__sigma": [0.5, 4.0]}
        search = GridSearchCV(pipeline, sigmas, cv=2, scoring=accuracy)
        search.fit(X, y, sample_weight=w)
        silent = GridSearchCV(bc.CoresetLogisticRegression(size=300, **QUICK), {"draws": [300]}, cv=2)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            silent.fit(X, y, sample_weight=w)
    core = search.best_estimator_[-1].coreset_
    assert core.weight_total == w.sum()
    assert search.best_estimator_[-1].prior.sigma in (0.5, 4.0)
