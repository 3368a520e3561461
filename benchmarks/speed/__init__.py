"""Speed and memory: what do builds, samplers and imports cost?"""
