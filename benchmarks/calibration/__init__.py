"""Calibration: whether posteriors are right on average over the prior."""
