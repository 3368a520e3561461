"""Rivals: who is nearer, and what does the same work cost elsewhere?"""
