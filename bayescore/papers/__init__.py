"""What only the tables of papers need: bounds, guarantees and schemes that no coreset is built with.

Sources: Huggins, Campbell and Broderick (2016) for limits and expectations of sensitivities, Nock et al. (2016) for
guarantees and private schemes of k-variates++, Peters (2021) for on-line leverage scores and the circle.
"""

from bayescore.papers.circle import separable_circle
from bayescore.papers.expected_sensitivity import expected_sensitivity
from bayescore.papers.guarantee import Guarantee, guarantee
from bayescore.papers.minibatches import minibatch_width, on_line_bound
from bayescore.papers.online_scores import online_scores_by_row
from bayescore.papers.pd_means import pd_means
from bayescore.papers.relaxed import RelaxedGuarantee, relaxed_guarantee
from bayescore.papers.sensitivity_limits import (
    indispensable_rows,
    near_orthogonal_rows,
    sensitivity_range,
    sphere_separation,
)
from bayescore.papers.spread import spread, spread_calibrated

__all__ = [
    "Guarantee",
    "RelaxedGuarantee",
    "expected_sensitivity",
    "guarantee",
    "indispensable_rows",
    "minibatch_width",
    "near_orthogonal_rows",
    "on_line_bound",
    "online_scores_by_row",
    "pd_means",
    "relaxed_guarantee",
    "sensitivity_range",
    "separable_circle",
    "sphere_separation",
    "spread",
    "spread_calibrated",
]
