"""Samplers of the weighted posterior: Langevin and Gibbs steps, compiled, and PyMC's NUTS; `sample` is the one verb."""
