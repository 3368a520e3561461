"""Speed and memory: what builds, samplers and imports cost."""
