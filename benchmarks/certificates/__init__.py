"""Certificates: how often are they false, what do they refuse, what do they cost?"""
