"""Certificates: how often they are false, what they refuse, what they cost."""
