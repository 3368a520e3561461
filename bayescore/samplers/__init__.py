"""Samplers of the weighted posterior: NUTS through PyMC, adaptive MALA compiled; `sample` is the one verb."""
