"""Log-likelihoods of groups with their derivatives, group by group: they add up to those of all rows."""

import numpy as np
import pytest

from bayescore.families.family import check_family
from bayescore.models.groups import marginal_mode
from bayescore.models.groups.marginal_mode import marginal_likelihood_terms, terms_by_group
from bayescore.models.groups.rows import sums_over_rows
from bayescore.numerics.elementary import EffectNodes
from bayescore.types import NO_GROUP, WeightedData

N, G = 400, 30


@pytest.mark.parametrize("family", ["logistic", "cloglog"])
@pytest.mark.parametrize("at_once", [1 << 16, 50])
def test_they_add_up_to_those_of_all_rows(monkeypatch, family, at_once):
    monkeypatch.setattr(marginal_mode, "_ROWS_AT_ONCE", at_once)
    rng = np.random.default_rng(5)
    group = rng.integers(0, G - 1, N)  # the last group has no rows
    group[:20] = NO_GROUP
    X, y = rng.normal(size=(N, 3)), rng.choice(np.array([-1, 1], dtype=np.int8), N)
    rows = WeightedData(X, y, rng.uniform(0.5, 2.0, N), np.arange(N), offset=rng.normal(size=N), group=group[:, None])
    z, theta = rng.uniform(0.5, 1.5, N), np.array([0.3, -0.2, 0.1, -0.4])
    nodes = EffectNodes(np.append(rng.normal(size=G), 0.0), np.append(rng.uniform(0.3, 0.6, G), 0.0))
    resolved = check_family(family)
    whole, _ = marginal_likelihood_terms(sums_over_rows(rows, resolved, G, z)(theta[:-1], nodes), theta[-1], nodes)
    each = terms_by_group(rows, np.where(group < 0, G, group), z, (theta, nodes), resolved)
    assert each.value.sum() == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(each.gradient.sum(axis=0), whole.gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(each.precision.sum(axis=0), whole.precision, rtol=1e-10, atol=1e-10)
    # one group alone, too
    alone, at = rows.take(group == 7), EffectNodes(nodes.center[[7, -1]], nodes.scale[[7, -1]])
    alone = WeightedData(
        alone.X, alone.y, alone.weights, alone.index, offset=alone.offset, group=np.zeros_like(alone.group)
    )
    sums = sums_over_rows(alone, resolved, 1, z[group == 7])(theta[:-1], at)
    one, _ = marginal_likelihood_terms(sums, theta[-1], at)
    assert each.value[7] == pytest.approx(one.value, rel=1e-12)
    np.testing.assert_allclose(each.precision[7], one.precision, rtol=1e-9, atol=1e-10)
