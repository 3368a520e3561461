r"""The scikit-learn face: classifiers that build a coreset, sample its posterior, and predict with all draws.

`CoresetLogisticRegression` and `CoresetProbitRegression` put `build_coreset`, `sample` and `predict` behind `fit`
and `predict`, so that they work in pipelines, cross-validation and searches. For reports use the three directly: what
they return is kept in ``coreset_`` and ``idata_``, and `certify` takes both.
"""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayescore.coresets.build import build_coreset
from bayescore.coresets.method import Method
from bayescore.data.design import Design
from bayescore.data.sources.memory import array_source
from bayescore.data.sources.roles import Roles
from bayescore.models.priors import Prior, prior_of
from bayescore.samplers.inference_data import coefficients
from bayescore.samplers.predict import log_predictive, predict
from bayescore.samplers.sample import sample
from bayescore.types import INTERCEPT, FloatArray
from bayescore.validation import check_aligned, check_unmasked

_TAKEN = ("weight", "y", INTERCEPT)  # names of a coreset's own columns


class _CoresetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian regression with two classes on a coreset."""

    _family: ClassVar[str]

    def __init__(
        self,
        *,
        size: int | str = "auto",
        method: str | Method = "auto",
        prior: Prior | None = None,
        class_weight: dict[Any, float] | str | None = None,
        fit_intercept: bool = True,
        standardize: bool = True,
        sampler: str = "auto",
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        random_state: Any = None,
    ) -> None:
        self.size = size
        self.method = method
        self.prior = prior
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.sampler = sampler
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, if `deep` the prior's parameters as ``prior__sigma`` and the like beside them."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.prior, Prior):
            params |= {f"prior__{name}": value for name, value in self.prior.parameters().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; ``prior__sigma=2`` gives the prior, by default Normal(0, 4), another sigma.

        Raises
        ------
        ValueError
            If there is no setting of the name, or the prior has no such parameter.
        """
        own = {name: value for name, value in params.items() if not name.startswith("prior__")}
        super().set_params(**own)
        changed = {name.removeprefix("prior__"): value for name, value in params.items() if name not in own}
        if changed:
            prior = prior_of(self.prior, [])
            for name in changed:
                if name not in prior.parameters():
                    known = ", ".join(prior.parameters())
                    raise ValueError(f"prior__{name} is no parameter of {prior}, which has {known}")
            self.prior = prior.replaced(**changed)
        return self

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Build a coreset of the rows and sample its posterior.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Raw features.
        y : array, shape (n,)
            Labels, any two classes; the second in sorted order is +1.
        sample_weight : array, shape (n,), optional
            Weights: a row of weight w counts as w rows, one of weight 0 not at all.

        Raises
        ------
        ValueError, TypeError
            As `build_coreset` and `sample` do.
        """
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        for name, part in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            check_unmasked(part, name)
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multiclass") or len(np.unique(y)) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weights > 0.0
        raw, labels, weights = X[used], np.asarray(y)[used], weights[used]
        rows = array_source(raw, Roles(y=labels, weights=weights * self._class_weights(labels, weights)))
        if (names := getattr(self, "feature_names_in_", None)) is not None:
            rows = replace(rows, design=Design(tuple(f"{name}_" if name in _TAKEN else str(name) for name in names)))
        rng = np.random.default_rng(self._seed())
        self.coreset_ = build_coreset(
            rows,
            family=self._family,
            method=self.method,
            size=self.size,
            intercept=self.fit_intercept,
            standardize=self.standardize,
            random_state=rng,
            progressbar=False,
        )
        self.idata_ = sample(
            self.coreset_,
            prior=self.prior,
            sampler=self.sampler,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            random_seed=rng,
            progressbar=False,
        )
        self.classes_ = np.unique(labels)
        self._set_coefficients()
        return self

    def _seed(self) -> Any:
        """Return the seed; of scikit-learn's own RandomState, which it passes around, one is drawn."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return self.random_state

    def _class_weights(self, y: NDArray[Any], weights: FloatArray) -> FloatArray:
        """Return what `class_weight` multiplies the weight of each row by, shape (n,)."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            _, each = np.unique(y, return_inverse=True)
            totals = np.bincount(each, weights)
            return np.asarray((weights.sum() / (len(totals) * totals))[each])
        return np.asarray(compute_sample_weight(self.class_weight, y), dtype=np.float64)

    def _set_coefficients(self) -> None:
        design = self.coreset_.design
        mean = coefficients(self.idata_, "idata_")[0].mean(axis=(0, 1))
        raw = design.raw_coefficients(mean)
        slopes, level = (raw[1:], raw[0]) if design.intercept else (raw, 0.0)
        if design.center is not None and not design.intercept:
            level = -float(slopes @ np.asarray(design.center))
        self.coef_ = slopes[None]
        self.intercept_ = np.array([level])

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the posterior means of the classes' probabilities, shape (n, 2), over all draws."""
        raw = self._checked(X)
        p = predict(self.idata_, raw)["mean"].to_numpy()
        return np.stack([1.0 - p, p], axis=1)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, 2), those of small probabilities from the draws."""
        raw = self._checked(X)
        return log_predictive(self.idata_, raw)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the log odds of the predictive probability of ``classes_[1]``, shape (n,), whatever the family.

        The draws are averaged first, so that its sign is that of `predict` and its order that of `predict_proba`; it is
        not X @ coef_ + intercept_, whose probabilities are too sure of themselves.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0])

    def _checked(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of larger predictive probability, shape (n,)."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[(p[:, 1] > 0.5).astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


_PARAMETERS = """

    Parameters
    ----------
    size, method
        As in `build_coreset`: with "auto" the smallest coreset whose predicted error is within 0.05 posterior sd, or
        the merged rows where few are distinct.
    prior : prior, default Normal(0, 4)
        Prior of the coefficients, of standardised columns if `standardize`. Searches reach its parameters as
        ``prior__sigma`` and the like.
    class_weight : dict, "balanced" or None
        Weights of the classes, by which those of their rows are multiplied; "balanced" gives both classes half of the
        total weight. Probabilities and their spread are then those of data so reweighted: for rare classes rather leave
        it out and move the threshold (`sklearn.model_selection.TunedThresholdClassifierCV`).
    fit_intercept : bool
        Whether to add an intercept.
    standardize : bool
        Whether to center the columns and divide them by their standard deviation.
    sampler, draws, tune, chains
        As in `sample`.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The labels; the second is +1.
    coef_, intercept_ : arrays, shapes (1, D) and (1,)
        Posterior means of the coefficients in units of the raw columns.
    coreset_ : Coreset
        From `build_coreset`.
    idata_ : InferenceData
        From `sample`; `certify`, `compare` and `predict` take it.
    n_features_in_, feature_names_in_
        Columns seen by `fit`. Names of a table's columns are those of the coefficients in ``coreset_`` and ``idata_``;
        "weight", "y" and "Intercept", which coresets need themselves, get an underscore there.

    Raises
    ------
    ValueError, TypeError
        Of `fit`, for options that are out of range or of the wrong kind.
    DataError
        Of `fit`, if rows or labels cannot be used.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> import bayescore as bc
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = bc.CoresetLogisticRegression(random_state=0)
    >>> cross_val_score(model, X, y, scoring="neg_log_loss").mean() > -0.2  # doctest: +SKIP
    True
    """


class CoresetLogisticRegression(_CoresetClassifier):
    """Bayesian logistic regression on a coreset, as a scikit-learn classifier."""

    __doc__ += _PARAMETERS
    _family = "logistic"


class CoresetProbitRegression(_CoresetClassifier):
    """Bayesian probit regression on a coreset, as a scikit-learn classifier."""

    __doc__ += _PARAMETERS
    _family = "probit"
