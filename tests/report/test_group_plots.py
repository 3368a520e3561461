import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import special, stats

from bayescore.report import pictures
from bayescore.samplers.summaries import GroupEffects
from bayescore.validation import DataError


def effects(means, sd=0.1, family="logistic"):
    draws = np.asarray(means) + sd * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    return GroupEffects("county", tuple(f"c{g}" for g in range(len(means))), draws, family)


def shares(share, weight):
    return pd.DataFrame({"share": share, "weight": weight}, index=[f"c{g}" for g in range(len(share))])


def drawn(axes):
    """Means and rows of all points."""
    points = [line.get_xydata() for line in axes.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    found = np.concatenate(points)
    return found[np.argsort(found[:, 1])]


def test_caterpillar_sorts_groups_and_darkens_intervals_without_0():
    axes = pictures.caterpillar(Figure(), effects([0.05, -1.0, 2.0]))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c2", "c0", "c1"]
    np.testing.assert_allclose(drawn(axes), [[2.0, 0], [0.05, 1], [-1.0, 2]], atol=1e-12)
    dark, grey = ([own.get_segments() for own in axes.collections][i] for i in (0, 1))
    assert [segment[0, 1] for segment in dark] == [0, 2]
    (only,) = grey
    np.testing.assert_allclose(only[:, 0], 0.05 + 0.1 * stats.norm.ppf([0.025, 0.975]), atol=1e-3)
    assert "county" in axes.get_xlabel()
    assert "log odds" in axes.get_xlabel()
    assert axes.yaxis_inverted()  # the largest on top


def test_many_groups_have_names_at_the_ends_only(monkeypatch):
    means = np.random.default_rng(0).permutation(100)
    axes = pictures.caterpillar(Figure(), effects(means, family="probit"))
    named = {text.get_text() for text in axes.texts}
    assert named == {f"c{g}" for g in np.flatnonzero((means < 5) | (means >= 95))}
    assert not axes.get_yticklabels()
    assert axes.get_ylabel() == "100 groups, sorted"
    assert "probit" in axes.get_xlabel()
    monkeypatch.setattr(pictures, "MAX_BARS", 50)
    axes = pictures.caterpillar(Figure(), effects(means))
    assert len(drawn(axes)) == 50
    assert drawn(axes)[[0, -1], 0] == pytest.approx([99.0, 0.0])
    assert "50 of 100 groups" in axes.get_title(loc="left")


@pytest.mark.parametrize(("family", "inverse"), [("logistic", special.logit), ("probit", stats.norm.ppf)])
def test_shrinkage_stands_over_what_the_rows_say(family, inverse):
    share, weight = np.array([0.25, 0.0, 0.9]), np.array([8.0, 3.0, 50.0])
    table = shares(share, weight)[::-1]  # by name, not by place
    axes = pictures.shrinkage(Figure(), effects([-0.1, -0.2, 1.0], family=family), table)
    points = next(own for own in axes.collections if len(own.get_offsets()) == 3)
    x, y = points.get_offsets().T
    own = inverse((share * weight + 0.5) / (weight + 1.0)) - inverse(share @ weight / weight.sum())
    np.testing.assert_allclose(x, own, atol=1e-4)
    np.testing.assert_allclose(y, [-0.1, -0.2, 1.0], atol=1e-12)
    assert list(np.argsort(points.get_sizes())) == [1, 0, 2]  # by rows
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    assert (lines["no pooling"][:, 0] == lines["no pooling"][:, 1]).all()
    assert (lines["complete pooling"][:, 1] == 0.0).all()


def test_shares_that_do_not_fit_are_refused():
    own = effects([0.0, 1.0])
    with pytest.raises(DataError, match="no row for the group 'c1'"):
        pictures.shrinkage(Figure(), own, shares([0.5], [3.0]))
    axes = pictures.shrinkage(Figure(), own, shares([0.5, np.nan], [3.0, 0.0]))  # a level without rows
    assert np.isfinite(axes.get_xlim()).all()
