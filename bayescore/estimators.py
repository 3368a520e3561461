"""The scikit-learn face: `bayescore.fit` as classifiers for pipelines, cross-validation and searches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from bayescore.data.column_kinds import as_table, is_text
from bayescore.data.design import Design
from bayescore.data.formula_parsing import parsed
from bayescore.data.open import spelled_out
from bayescore.data.roles import Roles
from bayescore.data.sources import array_source
from bayescore.data.tables import is_table
from bayescore.fitting.fit import fit_given
from bayescore.fitting.route import FitOptions, Given
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior
from bayescore.samplers.predict import log_predictive
from bayescore.text import free_name, listed
from bayescore.types import INTERCEPT, FloatArray
from bayescore.validation import DataError, check_aligned, check_unmasked

_TAKEN = ("weight", "y", INTERCEPT)  # names of a coreset's own columns


class _CoresetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`bayescore.fit` of rows with two classes."""

    _family: ClassVar[str]

    def __init__(
        self,
        *,
        formula: str | None = None,
        prior: Prior | Mapping[str, Prior] | None = None,
        group_prior: GroupPrior | None = None,
        class_weight: dict[Any, float] | str | None = None,
        fit_intercept: bool = True,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        sampler: str = "auto",
        method: str = "auto",
        size: int | str = "auto",
        max_seconds: float = 600.0,
        random_state: Any = None,
    ) -> None:
        self.formula = formula
        self.prior = prior
        self.group_prior = group_prior
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.sampler = sampler
        self.method = method
        self.size = size
        self.max_seconds = max_seconds
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, if `deep` the prior's parameters as ``prior__sigma`` and the like beside them."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.prior, Prior):
            params |= {f"prior__{name}": value for name, value in self.prior.parameters().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; ``prior__sigma=2`` gives the prior another sigma.

        Raises
        ------
        ValueError
            If there is no setting of the name, or the prior has no such parameter.
        """
        of_estimator = {name: value for name, value in params.items() if not name.startswith("prior__")}
        super().set_params(**of_estimator)
        changed = {name.removeprefix("prior__"): value for name, value in params.items() if name not in of_estimator}
        if changed:
            if not isinstance(self.prior, Prior):
                raise ValueError(
                    f"prior__{next(iter(changed))} changes a parameter of a prior, but prior={self.prior!r}: give one, "
                    "such as prior=bc.priors.Normal(0, 2.5)"
                )
            parameters = self.prior.parameters()
            if unknown := [name for name in changed if name not in parameters]:
                has = ", ".join(parameters)
                raise ValueError(f"prior__{unknown[0]} is no parameter of {self.prior}, which has {has}")
            self.prior = self.prior.replaced(**changed)
        return self

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the rows as `bayescore.fit` does: build a coreset, sample it, certify the draws by all rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Raw features, numbers unless there is a `formula`.
        y : array, shape (n,)
            Labels, any two classes; the second in sorted order is +1.
        sample_weight : array, shape (n,), optional
            Weights: a row of weight w counts as w rows, one of weight 0 not at all.

        Raises
        ------
        ValueError, TypeError
            As `bayescore.fit` does, for settings too. Predictions raise if a column is missing or a level is new.

        Warns
        -----
        UserWarning
            If the draws could not be certified; ``certificate_`` and ``fit_.story`` say why.
        """
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        for name, part in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            check_unmasked(part, name)
        X, y = self._validated(X, y)
        if missing := int(pd.isna(y).sum()):
            raise DataError(f"y misses {missing} labels; leave these rows out")
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multiclass") or (n_labels := len(np.unique(y))) > 2:
            many = f"; y has {n_labels} labels: merge some, or leave their rows out" if kind == "multiclass" else ""
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}{many}.")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = np.flatnonzero(weights > 0.0)
        if len(used) < len(y):
            X, y, weights = _safe_indexing(X, used), y[used], weights[used]
        options = FitOptions(self.draws, self.tune, self.chains, self.sampler, self.method, self.size)
        settings = {"max_seconds": self.max_seconds, "random_state": self._seed(), "options": options}
        given = self._given(X, y, weights * self._class_weights(y, weights))
        self.fit_ = fit_given(given, self._family, self.prior, group_prior=self.group_prior, **settings)
        self.coreset_, self.certificate_ = self.fit_.coreset, self.fit_.certificate
        self.classes_ = np.unique(y)
        coef = self.coreset_.design.raw_coefficients(self.fit_._posterior().flat).mean(axis=0)
        first = self.coreset_.design.constant is not None
        self.coef_, self.intercept_ = coef[None, int(first) :], coef[:1] if first else np.zeros(1)
        return self

    def _validated(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return rows and labels, checked: with a formula the table as it is, else a matrix of numbers."""
        if self.formula is None:
            try:
                return validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")  # type: ignore[no-any-return]
            except ValueError:
                text = [one.name for one in as_table(X, "X").schema if is_text(one.type)] if is_table(X) else []
                if text:
                    raise DataError(
                        f"X has columns of text, {listed(text)}: give a formula, such as "
                        f"formula='{text[0]}', or put a ColumnTransformer with a OneHotEncoder before the classifier"
                    ) from None
                raise
        if parsed(spelled_out(self.formula, X)).response is not None:
            raise ValueError(f"formula={self.formula!r} has a left side, but y has the labels; leave the left side out")
        if not self.fit_intercept:
            raise ValueError("fit_intercept=False is given beside a formula, which says so itself: write '0 + age'")
        if not is_table(X):
            raise TypeError(f"formula={self.formula!r} needs names of columns, but X is a {type(X).__name__}")
        validate_data(self, X, skip_check_array=True)
        check_consistent_length(X, y)
        return X, column_or_1d(y, warn=True)

    def _given(self, X: Any, y: NDArray[Any], weights: FloatArray) -> Given:
        """Return the rows as `bayescore.fit` has them."""
        if self.formula is not None:
            roles = {} if (weights == 1.0).all() else {"weights": weights}
            labels = pd.Series(y, getattr(X, "index", None), name=free_name("y", X.columns))
            return Given(X, labels, spelled_out(self.formula, X), roles=roles)
        rows = array_source(X, Roles(y=y, weights=weights))
        if (names := getattr(self, "feature_names_in_", None)) is not None:
            rows = replace(rows, design=Design(tuple(f"{name}_" if name in _TAKEN else str(name) for name in names)))
        return Given(rows, intercept=self.fit_intercept)

    def _seed(self) -> Any:
        """Return the seed; of scikit-learn's own RandomState, which it passes around, one is drawn."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return self.random_state

    def _class_weights(self, y: NDArray[Any], weights: FloatArray) -> FloatArray:
        """Return what `class_weight` multiplies the weight of each row by, shape (n,)."""
        if self.class_weight == "balanced":
            _, each = np.unique(y, return_inverse=True)
            totals = np.bincount(each, weights)
            return np.asarray((weights.sum() / (len(totals) * totals))[each])
        return np.asarray(compute_sample_weight(self.class_weight, y), dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle keeps: not the rows, as `Fit.save` does not."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"fit_": replace(self.fit_, _given=None)} if hasattr(self, "fit_") else state

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the posterior means of the classes' probabilities, shape (n, 2), over all draws."""
        return np.exp(self.predict_log_proba(X))

    @property
    def idata_(self) -> Any:
        """The draws to use, as InferenceData."""
        return self.fit_.idata

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, 2), those of small probabilities from the draws."""
        check_is_fitted(self)
        if self.formula is None:
            X = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        return log_predictive(self.fit_._used, X)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the predictive probability of ``classes_[1]``, shape (n,), whatever the family.

        The draws are averaged first, so that its sign is that of `predict` and its order that of `predict_proba`; it is
        not X @ coef_ + intercept_, whose probabilities are too sure of themselves.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of larger predictive probability, shape (n,)."""
        second = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[second.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


_PARAMETERS = """

    Where the certificate refuses the draws, `fit` warns, and ``certificate_.level`` is "not certified".

    Parameters
    ----------
    formula : str, optional
        Terms in R's syntax without a left side, "age * device + (1 | county)", as in `bayescore.fit`; X is then a data
        frame, whose other columns are not read. By default all columns are features and numbers.
    prior : prior or dict of str to prior, optional
        Prior of the coefficients, in units of the columns of X, as in `bayescore.fit`; by default Normal(0, 2.5 / sd)
        of each column, sd that given the others. Searches reach the parameters of one that is given as ``prior__sigma``
        and the like.
    group_prior : HalfStudentT or HalfNormal, optional
        Prior of the sds of a formula's group terms and smooth terms, as in `bayescore.fit`.
    class_weight : dict, "balanced" or None
        Weights of the classes, by which those of their rows are multiplied; "balanced" gives both classes half of the
        total weight. Probabilities and their spread are then those of data so reweighted: for rare classes rather leave
        it out and move the threshold (`sklearn.model_selection.TunedThresholdClassifierCV`).
    fit_intercept : bool
        Whether to add an intercept; a formula says so itself.
    draws, tune, chains, sampler, method, size
        As in `bayescore.fit`.
    max_seconds : float
        Time that one step of an escalation may take, as in `bayescore.fit`.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The labels; the second is +1.
    coef_, intercept_ : arrays, shapes (1, D) and (1,)
        Posterior means of the coefficients in units of the raw columns.
    fit_ : Fit
        What `bayescore.fit` returns, for summaries, intervals, comparisons and reports. A pickle keeps it without the
        rows.
    coreset_, idata_, certificate_ : Coreset, InferenceData, Certificate
        Its parts: the weighted rows, the draws to use, and the verdict on them.
    n_features_in_, feature_names_in_
        Columns seen by `fit`. Names of a table's columns are those of the coefficients in ``coreset_`` and ``idata_``;
        without a formula "weight", "y" and "Intercept", which coresets need themselves, get an underscore there.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(45, 12, 5000), "device": rng.choice(["phone", "tablet"], 5000)})
    >>> y = np.where(0.05 * (X["age"] - 45) + (X["device"] == "tablet") + rng.logistic(size=5000) > 0, "yes", "no")
    >>> model = bc.CoresetLogisticRegression(formula="age + device", random_state=1).fit(X, y)
    >>> str(model.certificate_.level), model.coef_.round(2).tolist()
    ('certified', [[0.05, 1.09]])
    >>> model.predict(pd.DataFrame({"age": [30, 60], "device": ["phone", "tablet"]})).tolist()
    ['no', 'yes']
    """


class CoresetLogisticRegression(_CoresetClassifier):
    """Bayesian logistic regression on a coreset, as a scikit-learn classifier."""

    __doc__ += _PARAMETERS
    _family = "logistic"


class CoresetProbitRegression(_CoresetClassifier):
    """Bayesian probit regression on a coreset, as a scikit-learn classifier."""

    __doc__ += _PARAMETERS
    _family = "probit"
