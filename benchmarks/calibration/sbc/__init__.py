"""Simulation-based calibration of the whole way: data, coreset, draws, correction.

`ranks` tests whether ranks are uniform, `way` is one replication, `prior_sbc` draws coefficients and data from the
prior.
"""
