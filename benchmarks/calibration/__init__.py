"""Calibration: are posteriors right on average over the prior?"""
