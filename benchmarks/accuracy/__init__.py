"""Accuracy: how near is the posterior of a coreset to that of all rows?"""
