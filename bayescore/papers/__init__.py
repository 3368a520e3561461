"""What only the tables of papers need: bounds, guarantees and schemes that no coreset is built with.

Sources: Huggins, Campbell and Broderick (2016) for limits and expectations of sensitivities, Nock et al. (2016) for
guarantees and private schemes of k-variates++, Peters (2021) for on-line leverage scores and the circle.
"""

from bayescore.papers.huggins import (
    expected_sensitivity,
    indispensable_rows,
    near_orthogonal_rows,
    sensitivity_range,
    sphere_separation,
)
from bayescore.papers.nock import (
    Guarantee,
    RelaxedGuarantee,
    guarantee,
    minibatch_width,
    on_line_bound,
    relaxed_guarantee,
)
from bayescore.papers.nock_private import pd_means, spread, spread_calibrated
from bayescore.papers.peters import online_scores_by_row, separable_circle

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
