"""Peters (2021), coresets for Bayesian probit regression: its figure, the experiments it announces, its theorems."""
