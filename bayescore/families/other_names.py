"""What other packages call families: names that mean one of those here, and what to give for those that are not here.

The names are those of brms, bambi, rstanarm, statsmodels, scikit-learn and R's packages, read in lower case and without
marks between words. A link in parentheses, as in brms' ``bernoulli("probit")``, is read where the family has it.
"""

import re

_ALIASES = {
    "logistic": ("bernoulli", "binomial", "logit"),
    "normal": ("gaussian", "lm", "ols"),
    "negative_binomial": ("negbinomial", "negativebinomial", "negbin", "nbinom", "nb"),
    "student_t": ("student", "studentt", "t"),
    "truncated_poisson": ("ztpoisson", "zerotruncated_poisson", "truncpoiss"),
}


ALIASES = {alias: kind for kind, each in _ALIASES.items() for alias in each}
"""Families by the names that other packages have for them."""


_LINKS = {
    "logistic": {"logit": "logistic", "probit": "probit", "cloglog": "cloglog", "loglog": "loglog"},
    "normal": {"identity": "normal"},
    "student_t": {"identity": "student_t"},
    **{kind: {"log": kind} for kind in ("poisson", "truncated_poisson", "negative_binomial", "gamma")},
}
_LINKED = re.compile(r"(\w+)\(\s*(?:link\s*=\s*)?['\"]?([a-z]\w*)['\"]?\s*\)")

_ROWS = "with cluster= a column that numbers the rows"
_INSTEAD = {
    f"family='student_t' fits the middle of such numbers, whose outliers do not lead it, and 'normal' {_ROWS} their "
    "mean, whose spread holds for other noise": ("robust", "laplace", "asymmetriclaplace", "skewnormal"),
    "fractions are successes of trials, k | trials(n) ~ ..., where the denominator is known; else fit their log odds, "
    "log(y / (1 - y)) ~ ..., by family='normal'": ("beta", "kumaraswamy"),
    "fit the successes of trials by family='logistic' with a random intercept (1 | row), or with cluster=, of a column "
    "that numbers the rows": ("betabinomial",),
    "fit whether a count is above 0 by family='logistic', and those that are by family='truncated_poisson'": (
        *("hurdle", "hurdlepoisson", "hurdlenegativebinomial", "hurdlenegbinomial"),
    ),
    "family='negative_binomial' takes many zeros; where zeros come about in a way of their own, fit whether a count is "
    "above 0 by family='logistic', and those that are by family='truncated_poisson'": (
        *("zeroinfl", "zeroinflatedpoisson", "zeroinflatednegativebinomial", "zeroinflatednegbinomial", "zip", "zinb"),
    ),
    "fit whether a number is above 0 by family='logistic', and those that are by family='gamma', or their logarithm, "
    "log(y) ~ ..., by family='normal'": ("hurdlelognormal", "hurdlegamma", "tweedie"),
    "fit the logarithm, log(y) ~ ..., by family='normal'": ("lognormal",),
    "family='weibull(1)' is that of times to an event, Surv(time, event) ~ ..., and 'gamma(1)' of positive numbers": (
        *("exponential", "expon"),
    ),
    "give family='weibull' for times to an event, or 'cloglog' with a row for each period": ("cox", "coxph", "phreg"),
    "it is family='negative_binomial(1)'": ("geometric",),
    "positive numbers take family='gamma', or log(y) ~ ... by family='normal'": (
        *("inversegaussian", "invgauss", "wald", "shiftedlognormal"),
    ),
    "ordered categories take family='sratio' in bayescore.fit": (
        *("ordinal", "ologit", "oprobit", "polr", "clm", "acat", "cratio", "stoppingratio", "orderedlogistic"),
        *("orderedmodel", "proportionalodds"),
    ),
    "of several classes without order fit each but one by family='logistic', of the rows of that class and of the one "
    "left out": ("categorical", "multinomial", "softmax", "mnlogit", "dirichletmultinomial"),
    f"family='poisson' {_ROWS} has the spread that the data have, and 'negative_binomial' a variance of its own": (
        *("quasipoisson",),
    ),
    f"family='logistic' {_ROWS} has the spread that the data have": ("quasibinomial",),
}
INSTEAD = {name: remedy for remedy, names in _INSTEAD.items() for name in names}
"""What to give for families that are not here, by names in lower case without marks."""


def with_link(name: str) -> str:
    """Return the name of the family here for one with its link, such as "bernoulli('probit')"; others as they are."""
    match = _LINKED.fullmatch(name.strip().lower())
    if match is None:
        return name
    return _LINKS.get(ALIASES.get(match[1], match[1]), {}).get(match[2], name)


def instead_of(name: object) -> str:
    """Return what to give for a family of another package; empty if there is no such."""
    kind = str(name).partition("(")[0]
    return INSTEAD.get(re.sub(r"[\W_]", "", kind.lower()), "")
