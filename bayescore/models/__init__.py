"""Likelihoods, priors, the weighted posterior density, its mode, and the PyMC models made of them."""
