r"""Priors in units of the data's own columns, and the default one, for design matrices with standardised columns.

`fit` standardises the columns of models with an intercept. The default prior is Normal(0, 2.5) on every coefficient of
the standardised columns, that is

.. math:: c_d \sim N(0, (2.5 / \mathrm{sd}(x_d))^2), \qquad \alpha \sim N(0, 2.5^2),

c_d the coefficient of a raw column, sd(x) the weighted population sd over all rows, \alpha the intercept where all
columns are at their means. These are rstanarm's default priors for ``binomial(link = "logit")``; those of numbers with
normal noise are in units of y (`models.default_priors`). A prior that is given
is on c_d and \alpha too, so that "Intercept" means the same as in rstanarm and brms.

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bayescore.data.design import Design
from bayescore.models.default_priors import DEFAULT_SCALE
from bayescore.models.priors import ByName, Independent, Normal, Prior, check_prior, leaves_out, prior_of
from bayescore.types import FloatArray


def design_prior(given: Prior | Mapping[str, Prior] | None, design: Design, default: Prior | None = None) -> Prior:
    """Return the prior of the coefficients of a design, given one in units of the data's own columns.

    By default it is `default`, in units of the design, or that of standardised columns. Hierarchies and multivariate
    priors, whose parameters are not one coefficient's, stay as they are: they are on the standardised columns.
    """
    names = design.names
    if given is None:
        return Normal(0.0, DEFAULT_SCALE) if default is None else default
    prior, scales = prior_of(given, names), design.scales
    if not isinstance(prior, Independent):
        return prior
    each = _each(prior, names, scales)
    if isinstance(prior, ByName) and leaves_out(given):
        rest = design_prior(None, design, default)
        for d in prior.unnamed:
            each[d] = rest.of_coefficient(d, names[d], len(names))
    return _together(each, names)


def raw_prior(prior: Prior, design: Design) -> Prior:
    """Return the prior in units of the data's own columns, given that of the design's: `design_prior` backwards."""
    if not isinstance(prior, Independent):
        return prior
    return _together(_each(prior, design.names, 1.0 / design.scales), design.names)


def _each(prior: Prior, names: Sequence[str], scales: FloatArray) -> list[Prior]:
    """Return the prior of each coefficient, which is `scales` times as large."""
    prior.parts(D := len(names))  # shapes
    return [_scaled(prior.of_coefficient(d, name, D), scales[d]) for d, name in enumerate(names)]


def _together(each: list[Prior], names: Sequence[str]) -> Prior:
    if all(type(own) is type(each[0]) for own in each):
        return _joined(each)
    return prior_of(dict(zip(names, each, strict=True)), names)


def _scaled(prior: Prior, scale: float) -> Prior:
    """Return the prior of a coefficient that is `scale` times as large."""
    return prior.replaced(**{name: float(getattr(prior, name) * scale) for name in prior.in_units})


def _joined(each: list[Prior]) -> Prior:
    """Return one prior of coefficients whose priors are of one class: a number where they agree, else a vector."""
    together: dict[str, Any] = {}
    for name in each[0].parameters():
        values = [getattr(own, name) for own in each]
        together[name] = values[0] if len(set(values)) == 1 else tuple(values)
    return each[0].replaced(**together)


def check_priors(prior: Any) -> None:
    """Raise unless `prior` is one: names of coefficients are checked once they are known."""
    if prior is None:
        return
    for name, own in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        try:
            check_prior(own)
        except TypeError as error:
            said = str(error).removeprefix("prior").removeprefix(f"={own!r} ")
            which = f"prior[{name!r}]" if name else "prior"
            raise TypeError(
                f"{which}={own!r} {said}. A flat prior is not among them, as labels that "
                "some column separates would have no posterior; a wide one is prior=bc.priors.Normal(0, 10)"
            ) from None
