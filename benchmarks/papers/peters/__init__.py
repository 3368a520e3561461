"""Peters (2021), coresets for Bayesian probit regression: its figure, the experiments it announces, its theorems."""

from collections.abc import Callable

from benchmarks.papers.peters import circle, lemmas, loss, mixing, posteriors

COMMANDS: dict[str, Callable[..., None]] = {
    "peters_circle": circle.main,
    "peters_lemmas": lemmas.main,
    "peters_epsilon": lemmas.epsilon,
    "peters_loss": loss.main,
    "peters_gibbs": posteriors.main,
    "peters_mixing": mixing.main,
}
