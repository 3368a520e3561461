"""What a fit prints above its table."""

from bayescore.data.design import terms_text
from bayescore.diagnostics.results import first_line
from bayescore.fitting.parts import FitParts
from bayescore.models.group_priors import DEFAULT_GROUP_PRIOR


def printed_lines(fit: FitParts) -> list[str]:
    """Return the verdict, the model, what was done, and what else a reader should know, a line each."""
    found = fit.certificate
    core = fit.coreset
    model = fit.formula or f"{core.label} ~ {core.n_features} columns"
    terms = f" + {terms_text(core.groups)}" if core.groups and fit.formula is None else ""
    lines = [first_line(found, corrected=True), *([] if found.trusted else [f"  {found.text}"])]
    lines.append(f"  {core.family} regression of {model}{terms}")
    lines += [f"  {step}" for step in fit.story]
    if (dispersion := fit.certificate.dispersion) is not None:
        lines.append(f"  {dispersion.finding if fit.spread else dispersion.text}")
    if fit.spread:
        lines.append(f"  spread: {fit.spread}, not the model's own")
    unit = " sd(y)" if core.numbers else ""
    default = f"default, Normal(0, 2.5{unit} / sd) of each column"
    if core.design.constant is not None:
        wide = "" if core.design.center is not None else " sqrt(1 + sum (mean / sd)^2)"
        where = "where they are 0" if wide else "at their means"
        default += f", Normal({'mean(y)' if unit else '0'}, 2.5{unit}{wide}) of the intercept {where}"
    if "posterior_of" not in fit.drawn.posterior.attrs:
        default = "that of a model of your own"
    lines += [f"  prior: {default if fit.prior is None else fit.prior}"]
    return lines if fit.group_prior in (None, DEFAULT_GROUP_PRIOR) else [*lines, f"  group prior: {fit.group_prior}"]
