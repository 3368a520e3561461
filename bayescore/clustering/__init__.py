"""Clusterings of rows: k-variates++ and its forms, and the exact means, sizes and cost of a given clustering."""

from typing import TYPE_CHECKING, Any

from bayescore.clustering.divergences import ITAKURA_SAITO, KULLBACK_LEIBLER, SQUARED_EUCLIDEAN, total_jensen
from bayescore.clustering.peers import d_means, d_means_partitions, ol_means, private_k_variates, s_means
from bayescore.clustering.variates import Noisy, PointMasses, Seeding, UniformDraw, k_variates

if TYPE_CHECKING:
    from bayescore.clustering.estimator import KVariates

__all__ = [
    "ITAKURA_SAITO",
    "KULLBACK_LEIBLER",
    "SQUARED_EUCLIDEAN",
    "KVariates",
    "Noisy",
    "PointMasses",
    "Seeding",
    "UniformDraw",
    "d_means",
    "d_means_partitions",
    "k_variates",
    "ol_means",
    "private_k_variates",
    "s_means",
    "total_jensen",
]


def __getattr__(name: str) -> Any:
    if name != "KVariates":
        raise AttributeError(f"module 'bayescore.clustering' has no attribute {name!r}")
    from bayescore.clustering.estimator import KVariates  # scikit-learn takes a second, which workers do without

    return KVariates
