"""Huggins, Campbell and Broderick (2016), coresets for Bayesian logistic regression: its figures and theorems."""
