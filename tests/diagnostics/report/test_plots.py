import numpy as np
import pytest
from matplotlib.figure import Figure

from bayescore.diagnostics import compare
from bayescore.diagnostics.report import plots
from bayescore.diagnostics.results import Level
from bayescore.samplers.inference_data import read_posterior
from tests.diagnostics.helpers import certificate

NAMES = ("<script>", "b")


def means(axes):
    """Return the means drawn, one array for each posterior."""
    drawn = [np.asarray(line.get_xdata()) for line in axes.get_lines() if line.get_marker() in "os"]
    return [points for points in drawn if len(points) == len(NAMES)]


@pytest.mark.parametrize(("level", "label"), [(Level.CORRECTED, "corrected"), (Level.NOT_CERTIFIED, "corrected, not")])
def test_corrected_intervals_stand_below_the_coresets_own(posterior, level, label):
    own = read_posterior(posterior(1, features=NAMES), "idata")
    axes = plots.corrected(Figure(), certificate(level=level), own)
    labels = axes.get_legend_handles_labels()[1]
    assert labels[0] == "coreset"
    assert labels[1].startswith(label)
    drawn = means(axes)
    np.testing.assert_allclose(drawn[0], own.thinned(500).mean(axis=(0, 1)))
    np.testing.assert_array_equal(drawn[1], [0.0, 0.0])  # the certificate's corrected means


def test_many_corrected_coefficients_are_cut_to_the_largest_errors(posterior):
    names = tuple(f"x{i}" for i in range(50))
    own = read_posterior(posterior(1, features=names), "idata")
    axes = plots.corrected(Figure(), certificate(features=names, errors=np.arange(50.0)), own)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"x{i}" for i in range(49, 9, -1)]
    assert "the 40 of 50 with the largest predicted errors" in axes.get_title(loc="left")


def test_a_candidate_that_never_moves_is_a_line(posterior):
    stuck = posterior(1)
    stuck.posterior["beta"].values[..., 0] = 3.0
    panels = plots.marginals(Figure(), compare({"stuck": stuck}, posterior(0)))
    drawn = {panel.get_title(): panel.get_lines()[-1].get_xdata() for panel in panels.flat if panel.get_visible()}
    assert list(drawn["a"]) == [3.0, 3.0]
    assert len(drawn["b"]) == 160


def test_far_candidates_are_drawn_first_where_there_are_too_many(posterior, monkeypatch):
    monkeypatch.setattr(plots, "MAX_ROWS", 2)
    candidates = {
        name: posterior(i, mean=mean) for i, (name, mean) in enumerate({"x": 0.0, "y": 2.0, "z": 1.0}.items())
    }
    axes = plots.mmd(Figure(), compare(candidates, posterior(9)))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["y", "z"]
    assert axes.get_title(loc="left") == "the 2 of 3 candidates farthest away"
