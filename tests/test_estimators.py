import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayescore as bc


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(50, 10, 4000), "dose": rng.exponential(0.01, 4000), "x": rng.normal(size=4000)})
    eta = 0.05 * (X["age"] - 50) + 80 * X["dose"] - 0.5 * X["x"] - 1
    return X, np.where(eta + rng.logistic(size=4000) > 0, "yes", "no")


@parametrize_with_checks([bc.CoresetLogisticRegression(random_state=0)])
@pytest.mark.filterwarnings("ignore:the labels (are|may be) completely separated:UserWarning")
def test_keeps_scikit_learns_conventions(estimator: Any, check: Any) -> None:
    keeps_convention(estimator, check)


@pytest.mark.slow
@parametrize_with_checks([bc.CoresetProbitRegression(random_state=0)])
@pytest.mark.filterwarnings("ignore:the labels (are|may be) completely separated:UserWarning")
def test_probit_keeps_scikit_learns_conventions(estimator: Any, check: Any) -> None:
    keeps_convention(estimator, check)


def keeps_convention(estimator: Any, check: Any) -> None:
    """Run one of scikit-learn's checks, but those that want equal draws of weights and of copies."""
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        pytest.skip("wants equal draws; see test_weights_count_as_copies")
    check(estimator)


def test_weights_count_as_copies() -> None:
    rng = np.random.default_rng(1)
    X, y, w = rng.normal(size=(300, 2)).round(1), rng.integers(2, size=300), rng.integers(4, size=300)
    weighted = bc.CoresetProbitRegression(random_state=0).fit(X, y, sample_weight=w)
    repeated = bc.CoresetProbitRegression(random_state=0).fit(X.repeat(w, axis=0), y.repeat(w))
    modes = [bc.find_map(model.coreset_).beta for model in (weighted, repeated)]
    np.testing.assert_allclose(*modes, rtol=1e-9)  # the draws differ: rows come in another order, with other rounding


def test_coefficients_are_in_raw_units(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    model = bc.CoresetLogisticRegression(random_state=0).fit(X, y)
    scale = X.std().to_numpy()
    plain = LogisticRegression(C=np.inf, max_iter=1000).fit((X - X.mean()) / scale, y)
    # a posterior sd is about 0.04 of these units
    np.testing.assert_allclose(model.coef_ * scale, plain.coef_, atol=0.08)
    np.testing.assert_allclose(model.intercept_ + model.coef_ @ X.mean().to_numpy(), plain.intercept_, atol=0.08)
    assert list(model.feature_names_in_) == ["age", "dose", "x"]


@pytest.mark.parametrize("kind", [bc.CoresetLogisticRegression, bc.CoresetProbitRegression])
def test_predicts_as_the_functions_do(kind: Any, rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    model = kind(random_state=0).fit(X, y)
    assert model.coreset_.family in kind.__name__.lower()
    p = model.fit_.predict(X)["mean"]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], p, rtol=1e-8)
    np.testing.assert_array_equal(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    np.testing.assert_allclose(model.decision_function(X), np.log(p / (1.0 - p)), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(model.decision_function(X) > 0.0, model.predict(X) == "yes")
    assert set(model.predict(X)) == {"no", "yes"}
    assert abs((model.predict_proba(X)[:, 1]).mean() - (y == "yes").mean()) < 0.02
    assert model.certificate_.level == "certified"


def test_works_in_pipelines_and_searches(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), bc.CoresetLogisticRegression(random_state=0))
    score = cross_val_score(pipeline, X, y, cv=2, scoring="neg_log_loss").mean()
    share = (y == "yes").mean()
    assert score > share * np.log(share) + (1 - share) * np.log1p(-share)
    search = GridSearchCV(
        bc.CoresetLogisticRegression(random_state=0),
        {"prior": [None, bc.priors.Normal(0, 0.001)]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(X, y)
    assert search.best_params_["prior"] is None


def test_settings_are_those_of_fit() -> None:
    """All options of `fit` but the roles of columns and what goes with them, by the same names and defaults."""
    of_rows = (
        "data label weights offset trials exposure groups cluster strata lonely domain positive missing imputed "
        "intercept"
    )
    left_out = {*of_rows.split(), "family", "random_seed", "progressbar"}
    options = {name: each.default for name, each in inspect.signature(bc.fit).parameters.items()}
    settings = {name: options[name] for name in options.keys() - left_out} | {"formula": None}
    extra = {"class_weight": None, "fit_intercept": True}
    for kind in (bc.CoresetLogisticRegression, bc.CoresetProbitRegression):
        assert clone(kind()).get_params() == settings | extra


def test_score_and_cross_validation_of_a_clone_are_those_of_its_settings(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    settings = {"draws": 100, "tune": 100, "method": "uniform", "size": 200, "prior": bc.priors.Normal(0, 2.5)}
    model = clone(bc.CoresetLogisticRegression(**settings, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows may not be certified
        scores = cross_val_score(model, X, y, cv=2)
        half = model.fit(X[: len(X) // 2], y[: len(X) // 2])
    assert half.coreset_.method == "uniform"
    assert half.score(X, y) == np.mean(half.predict(X) == y)
    assert scores.min() > 0.5


def test_no_rows_are_refused_as_scikit_learn_refuses_them(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    fitted = bc.CoresetLogisticRegression(random_state=0).fit(X, y)
    for predict in (fitted.predict, fitted.predict_proba, fitted.predict_log_proba, fitted.decision_function):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            predict(X.iloc[:0])


def test_weights_of_zero_leave_rows_out(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    first = np.arange(len(y)) < 2000
    weighted = bc.CoresetProbitRegression(random_state=0).fit(X, y, sample_weight=first)
    alone = bc.CoresetProbitRegression(random_state=0).fit(X[first], y[first])
    np.testing.assert_array_equal(weighted.coef_, alone.coef_)


def test_wrong_settings_are_named(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="max_seconds=0 must be positive"):
        bc.CoresetLogisticRegression(max_seconds=0).fit(*rows)
    with pytest.raises(TypeError, match="prior='flat' is not a prior of bayescore; use"):
        bc.CoresetLogisticRegression(prior="flat").fit(*rows)


def test_searches_reach_the_priors_parameters(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    prior = bc.priors.Normal(0.0, 0.01)
    search = GridSearchCV(
        bc.CoresetLogisticRegression(prior=prior, random_state=0),
        {"prior__sigma": [0.01, 200.0]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(*rows)
    assert search.best_params_ == {"prior__sigma": 200.0}
    assert search.best_estimator_.prior == bc.priors.Normal(0.0, 200.0)
    assert search.estimator.prior == prior  # frozen: as it was
    assert search.best_estimator_.fit_.prior == bc.priors.Normal(0.0, 200.0)


def test_parameters_of_priors_are_settings() -> None:
    model = bc.CoresetProbitRegression(prior=bc.priors.StudentT(4, sigma=1.0))
    assert {"prior__nu": 4, "prior__mu": 0.0, "prior__sigma": 1.0}.items() <= model.get_params().items()
    assert "prior__nu" not in model.get_params(deep=False)
    again = clone(model).set_params(prior__nu=7, max_seconds=50)
    assert (again.prior, again.max_seconds, model.prior) == (
        bc.priors.StudentT(7, sigma=1.0),
        50,
        bc.priors.StudentT(4, sigma=1.0),
    )
    assert model.set_params(prior=bc.priors.Laplace(), prior__b=3.0).prior == bc.priors.Laplace(b=3.0)
    with pytest.raises(ValueError, match=r"prior__scale is no parameter of Laplace.*, which has mu, b"):
        model.set_params(prior__scale=1.0)
    with pytest.raises(ValueError, match=r"prior__sigma changes a parameter of a prior, but prior=None: give one"):
        bc.CoresetLogisticRegression().set_params(prior__sigma=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


def test_masks_and_other_indexes_are_not_dropped(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    with pytest.raises(ValueError, match="y has another index than X"):
        bc.CoresetLogisticRegression(random_state=0).fit(X, pd.Series(y, index=X.index[::-1]))
    masked = np.ma.masked_array(y == "yes", mask=np.arange(len(y)) == 3)
    with pytest.raises(ValueError, match="y is a masked array"):
        bc.CoresetLogisticRegression(random_state=0).fit(X, masked)


def test_log_odds_are_finite_where_probabilities_are_not_to_be_told_from_one(
    rows: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = rows
    model = bc.CoresetLogisticRegression(random_state=0).fit(X, y)
    far = pd.DataFrame([[0.0, 10.0, 0.0], [0.0, -10.0, 0.0]], columns=X.columns)  # eta of some +-800
    np.testing.assert_allclose(model.predict_proba(far), [[0.0, 1.0], [1.0, 0.0]], atol=1e-15)
    odds, (up, down) = model.decision_function(far), model.predict_log_proba(far)
    assert odds[0] > 300.0
    assert odds[1] < -300.0
    np.testing.assert_allclose([up[1], down[0]], 0.0, atol=1e-300)
    beta = model.fit_._used["posterior"]["beta"].values.reshape(-1, 4)
    eta = beta @ model.coreset_.design.transform(far.to_numpy()).T
    least = np.logaddexp.reduce(-np.logaddexp(0.0, [1.0, -1.0] * eta), axis=0) - np.log(len(beta))
    np.testing.assert_allclose([up[0], down[1]], least, rtol=1e-9)


def test_columns_keep_their_names(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    pipeline = make_pipeline(PolynomialFeatures(1, include_bias=False), bc.CoresetLogisticRegression(random_state=0))
    model = pipeline.set_output(transform="pandas").fit(X, y)[-1]
    assert list(model.feature_names_in_) == ["age", "dose", "x"]
    assert model.coreset_.feature_names == ("Intercept", "age", "dose", "x")
    assert list(model.idata_.posterior["coef"]["feature"].values) == ["Intercept", "age", "dose", "x"]
    bare = bc.CoresetLogisticRegression(random_state=0).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(bare.coef_, model.coef_)
    assert bare.coreset_.feature_names == ("Intercept", "x0", "x1", "x2")
    own = model.fit(X.set_axis(["weight", "y", "Intercept"], axis=1), y)
    assert own.coreset_.feature_names == ("Intercept", "weight_", "y_", "Intercept_")
    np.testing.assert_array_equal(own.coef_, bare.coef_)


def test_weights_of_classes_multiply_those_of_rows(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    w = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    given = bc.CoresetLogisticRegression(class_weight={"no": 2.0, "yes": 0.5}, random_state=0).fit(X, y, w)
    same = bc.CoresetLogisticRegression(random_state=0).fit(X, y, w * np.where(y == "no", 2.0, 0.5))
    np.testing.assert_array_equal(given.coef_, same.coef_)
    plain = bc.CoresetLogisticRegression(random_state=0).fit(X, y, w)
    assert abs(given.intercept_ - plain.intercept_) > 1.0  # log 4, at the columns' means
    model = bc.CoresetProbitRegression(class_weight="balanced", random_state=0).fit(X, y, w)
    assert model.coreset_.weight_total == pytest.approx(w.sum())
    source = model._class_weights(y, w) * w
    assert source[y == "yes"].sum() == pytest.approx(source[y == "no"].sum())
    with pytest.raises(ValueError, match="class_weight"):
        bc.CoresetLogisticRegression(class_weight={"maybe": 2.0}, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        bc.CoresetLogisticRegression(class_weight="even", random_state=0).fit(X, y)


def test_weights_of_rows_are_routed_through_pipelines_and_searches(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    w = np.where(y == "yes", 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        model = bc.CoresetLogisticRegression(prior=bc.priors.Normal(0, 1), random_state=0).set_fit_request(
            sample_weight=True
        )
        pipeline = make_pipeline(PolynomialFeatures(1, include_bias=False), model)
        # a scorer, since `Pipeline.score` routes weights from scikit-learn 1.8 on only
        accuracy = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        sigmas = {"coresetlogisticregression__prior__sigma": [0.5, 4.0]}
        search = GridSearchCV(pipeline, sigmas, cv=2, scoring=accuracy)
        search.fit(X, y, sample_weight=w)
        silent = GridSearchCV(bc.CoresetLogisticRegression(random_state=0), {"max_seconds": [300]}, cv=2)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            silent.fit(X, y, sample_weight=w)
    core = search.best_estimator_[-1].coreset_
    assert core.weight_total == w.sum()
    assert search.best_estimator_[-1].prior.sigma in (0.5, 4.0)


@pytest.fixture(scope="module")
def clicks() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"age": rng.normal(45, 12, 4000), "device": rng.choice(["phone", "tablet", "tv"], 4000)})
    X["y"] = rng.normal(size=4000)  # a feature called as labels are by default
    X["comment"] = "none"
    eta = 0.05 * (X["age"] - 45) + X["device"].map({"phone": -1.0, "tablet": 0.0, "tv": 1.0}) + 0.5 * X["y"]
    X.index = rng.permutation(4000)
    return X, np.where(eta + rng.logistic(size=4000) > 0, "yes", "no")


FORMULA = "age + C(device) + y"


def test_a_formula_takes_columns_of_text(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = clicks
    model = bc.CoresetLogisticRegression(formula=FORMULA, random_state=0).fit(X, y)
    fit = bc.fit(f"clicked ~ {FORMULA}", X.assign(clicked=y), random_state=0, progressbar=False)
    np.testing.assert_allclose(model.coef_[0], fit.summary()["mean"].iloc[1:], rtol=1e-12)
    np.testing.assert_allclose(model.intercept_[0], fit.summary()["mean"]["Intercept"], rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], fit.predict(X)["mean"], rtol=1e-8)
    assert list(model.feature_names_in_) == ["age", "device", "y", "comment"]
    assert (model.n_features_in_, model.certificate_.level) == (4, "certified")
    np.testing.assert_array_equal(model.predict(X.drop(columns="comment")), model.predict(X))
    flat = bc.CoresetLogisticRegression(formula="0 + age", random_state=0).fit(X, y)
    assert (flat.intercept_.tolist(), flat.coef_.shape) == ([0.0], (1, 1))


def test_polars_frames_and_weights_go_with_a_formula(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    polars = pytest.importorskip("polars")
    X, y = clicks
    w = np.arange(4000) % 3
    model = bc.CoresetProbitRegression(formula=FORMULA, class_weight={"yes": 2.0}, random_state=0).fit(X, y, w)
    used = w > 0
    same = bc.CoresetProbitRegression(formula=FORMULA, random_state=0)
    same.fit(polars.from_pandas(X[used]), y[used], np.where(y == "yes", 2.0, 1.0)[used] * w[used])
    np.testing.assert_array_equal(model.coef_, same.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(polars.from_pandas(X)))


def test_groups_of_a_formula_may_be_new_in_predictions(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = clicks
    model = bc.CoresetLogisticRegression(formula="age + (1 | device)", random_state=0).fit(X, y)
    known, new = model.predict_proba(X[:5])[:, 1], model.predict_proba(X[:5].assign(device="watch"))[:, 1]
    assert model.coef_.shape == (1, 1)
    assert np.all((new > 0.0) & (new < 1.0) & (np.abs(new - known) > 1e-3))


@pytest.mark.slow
def test_text_works_behind_a_column_transformer(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = clicks
    columns = make_column_transformer((OneHotEncoder(drop="first"), ["device"]), ("passthrough", ["age", "y"]))
    pipeline = make_pipeline(columns, bc.CoresetLogisticRegression(random_state=0)).fit(X, y)
    formula = bc.CoresetLogisticRegression(formula=FORMULA, random_state=0)
    apart = np.abs(pipeline.predict_proba(X) - formula.fit(X, y).predict_proba(X)).max()
    assert apart < 0.02  # posterior sds of p are 0.01 to 0.02; coresets and draws differ
    out_of_fold = cross_val_predict(formula, X, y, cv=2, method="predict_proba")[:, 1]
    assert -np.mean(np.log(np.where(y == "yes", out_of_fold, 1.0 - out_of_fold))) < 0.6
    search = GridSearchCV(formula, {"formula": ["1 + y", FORMULA]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_ == {"formula": FORMULA}


@pytest.mark.slow
def test_what_the_fit_knows_is_kept(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = clicks
    model = bc.CoresetLogisticRegression(formula="age + device", random_state=0).fit(X, y)
    assert model.coreset_ is model.fit_.coreset
    assert model.idata_ is model.fit_.idata
    assert model.certificate_ is model.fit_.certificate
    slopes = model.fit_.slopes("age")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    pd.testing.assert_frame_equal(again.fit_.summary(), model.fit_.summary())
    with pytest.raises(ValueError, match="does not have all its rows"):
        again.fit_.slopes("age")
    whole = again.fit_.update(data=(X[["age", "device"]], y), progressbar=False)
    np.testing.assert_allclose(whole.slopes("age")["mean"], slopes["mean"], rtol=1e-6)
    assert model.fit_._given is not None
    assert not hasattr(clone(model), "fit_")


def test_it_escalates_and_warns_of_draws_that_are_not_certified(rows: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = rows
    few = bc.CoresetLogisticRegression(random_state=0, draws=20)  # too few for any certificate
    enough = clone(few).fit(X, y)
    assert [step.what for step in enough.fit_.story][:5] == ["build", "sample", "certify", "sample", "certify"]
    assert enough.certificate_.level == "certified"
    with pytest.warns(UserWarning, match="the draws are not certified: ") as given:
        hurried = clone(few).set_params(max_seconds=1e-9).fit(X, y)
    assert given[0].filename == __file__
    assert (hurried.certificate_.level, hurried.fit_.story[-1].what) == ("not certified", "stop")
    assert hurried.predict_proba(X).shape == (4000, 2)


BAD = [
    (None, "X has columns of text, 'device', 'comment': give a formula.*ColumnTransformer"),
    ("age + height", "the data have no feature 'height'; the columns are age, device"),
    ("clicked ~ age", "formula='clicked ~ age' has a left side, but y has the labels"),
    ("age +", r"formula='age \+' cannot be read"),
]


@pytest.mark.parametrize(("formula", "message"), BAD)
def test_bad_formulas_are_refused(formula: Any, message: str, clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=message):
        bc.CoresetLogisticRegression(formula=formula).fit(*clicks)


@pytest.mark.parametrize("formula", [None, "age"])
def test_labels_other_than_two_are_refused(formula: Any, clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, model = clicks[0][["age"]], bc.CoresetLogisticRegression(formula=formula)
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*y has 3 labels: merge some"):
        model.fit(X, np.arange(4000) % 3)
    with pytest.raises(ValueError, match=r"y'? has one class only, 'yes'; both classes are needed"):
        model.fit(X, np.full(4000, "yes"))
    with pytest.raises(ValueError, match="y misses 1000 labels"):
        model.fit(X, ["yes", "no", "yes", None] * 1000)


def test_bad_rows_for_a_formula_are_refused(clicks: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = clicks
    with pytest.raises(TypeError, match="formula='age' needs names of columns, but X is a ndarray"):
        bc.CoresetLogisticRegression(formula="age").fit(X[["age"]].to_numpy(), y)
    with pytest.raises(ValueError, match=r"fit_intercept=False is given beside a formula.*write '0 \+ age'"):
        bc.CoresetLogisticRegression(formula="age", fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        bc.CoresetLogisticRegression(formula="age").fit(X, y[:100])
    model = bc.CoresetLogisticRegression(formula=FORMULA, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X lacks the column 'age'; it has device, y, comment"):
        model.predict(X.drop(columns="age"))
    with pytest.raises(ValueError, match="column 'device' has the level 'watch' in row 0"):
        model.predict(X.assign(device="watch"))
    with pytest.raises(ValueError, match="X is no table, and 'device' holds text"):
        model.predict(X.to_numpy())
