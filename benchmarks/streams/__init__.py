"""Streams: what is lost where rows come in parts?"""
