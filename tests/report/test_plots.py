import itertools
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFT, CARETRIGHT

from bayescore.diagnostics.results import Level
from bayescore.report import pictures
from bayescore.report.compare import compare_posteriors
from bayescore.samplers.posterior import read_posterior
from tests.diagnostics.helpers import certificate

NAMES = ("<script>", "b")


def means(axes):
    """Return the means drawn, one array for each posterior."""
    drawn = [np.asarray(line.get_xdata()) for line in axes.get_lines() if line.get_marker() in ("o", "s")]
    return [points for points in drawn if len(points) == len(NAMES)]


@pytest.mark.parametrize(("level", "label"), [(Level.CORRECTED, "corrected"), (Level.NOT_CERTIFIED, "corrected, not")])
def test_corrected_intervals_stand_below_the_coresets_own(posterior, level, label):
    own = read_posterior(posterior(1, features=NAMES), "idata")
    axes = pictures.corrected(Figure(), certificate(level=level), own)
    labels = axes.get_legend_handles_labels()[1]
    assert labels[0] == "coreset"
    assert labels[1].startswith(label)
    drawn = means(axes)
    np.testing.assert_allclose(drawn[0], own.thinned(500).mean(axis=(0, 1)))
    np.testing.assert_array_equal(drawn[1], [0.0, 0.0])  # the certificate's corrected means


def test_many_corrected_coefficients_are_cut_to_the_largest_errors(posterior):
    names = tuple(f"x{i}" for i in range(50))
    own = read_posterior(posterior(1, features=names), "idata")
    axes = pictures.corrected(Figure(), certificate(features=names, errors=np.arange(50.0)), own)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"x{i}" for i in range(49, 9, -1)]
    assert "the 40 of 50 with the largest predicted errors" in axes.get_title(loc="left")


def test_a_candidate_that_never_moves_is_a_line(posterior):
    stuck = posterior(1)
    stuck.posterior["beta"].values[..., 0] = 3.0
    panels = pictures.marginals(Figure(), compare_posteriors({"stuck": stuck}, posterior(0)))
    drawn = {panel.get_title(): panel.get_lines()[-1].get_xdata() for panel in panels.flat if panel.get_visible()}
    assert list(drawn["a"]) == [3.0, 3.0]
    assert len(drawn["b"]) == 160


def test_far_candidates_are_drawn_first_where_there_are_too_many(posterior, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_ROWS", 2)
    candidates = {
        name: posterior(i, mean=mean) for i, (name, mean) in enumerate({"x": 0.0, "y": 2.0, "z": 1.0}.items())
    }
    axes = pictures.mmd(Figure(), compare_posteriors(candidates, posterior(9)))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["y", "z"]
    assert axes.get_title(loc="left") == "2 of 3 candidates, the farthest"


def many(posterior, methods, sizes=(10, 40, 20, 30), **far):
    """Coresets of each method and size, uniform ones first and `far`."""
    seeds = itertools.count(1)
    return {
        f"{method} {size}": posterior(
            next(seeds), draws=50, coreset={"method": method, "size": size}, **(far if method == "uniform" else {})
        )
        for method in methods
        for size in sizes
    }


def test_no_method_is_hidden_by_the_many_sizes_of_another(posterior, monkeypatch):
    found = compare_posteriors(many(posterior, ("uniform", "sensitivity", "calibrated")), posterior(0, draws=50))
    axes = pictures.forest(Figure(), found)
    labels = axes.get_legend_handles_labels()[1]
    assert labels == [
        "reference",
        *(f"{own} {size}" for own in ("uniform", "sensitivity", "calibrated") for size in (40, 30)),
    ]
    assert axes.get_title(loc="left") == "6 of 12 candidates, of each method the largest"
    assert [line.get_label() for line in pictures.marginals(Figure(), found).flat[0].get_lines()] == labels[1:]
    monkeypatch.setattr(pictures, "MAX_ROWS", 4)
    monkeypatch.setitem(found.candidates["uniform 10"].coreset, "size", 0)  # then not against size
    shown = [label.get_text().split()[0] for label in pictures.mmd(Figure(), found).get_yticklabels()]
    assert shown == ["uniform", "sensitivity", "calibrated"]


def test_more_methods_than_colours_are_all_shown_and_told_apart(posterior):
    found = compare_posteriors(many(posterior, [f"m{i}" for i in range(10)], (10, 20)), posterior(0, draws=50))
    assert pictures.forest(Figure(), found).get_legend_handles_labels()[1][1:] == [f"m{i} 20" for i in range(10)]
    assert len({pictures.look(i) for i in range(30)}) == 30


def test_far_candidates_are_marked_and_do_not_stretch_the_axes(posterior):
    found = compare_posteriors(
        many(posterior, ("uniform", "calibrated"), mean=[500.0, -700.0, 0.0]), posterior(0, draws=50)
    )
    axes = pictures.forest(Figure(), found)
    assert max(map(abs, axes.get_xlim())) < 3.0
    assert axes.get_xlabel().splitlines()[1].startswith("◂ ▸ beyond the axis; means lie up to ")
    assert float(re.search(r"up to (\d+) reference sds away", axes.get_xlabel())[1]) == pytest.approx(700, rel=0.1)
    carets = {(line.get_marker(), row) for line in axes.get_lines() for row in np.round(line.get_ydata())}
    assert {own for own in carets if own[0] in (CARETLEFT, CARETRIGHT)} == {(CARETRIGHT, 0.0), (CARETLEFT, 1.0)}
    figure = Figure()
    panels = pictures.marginals(figure, found)
    assert all(max(map(abs, panel.get_xlim())) < 5.0 for panel in panels.flat)
    marked = {panel.get_title(): len(panel.collections) - 1 for panel in panels.flat}  # beside the reference
    assert marked == {"a": 4, "b": 4, "c": 0}
    assert "median or peak beyond the panel" in figure.get_supxlabel()


def test_what_is_near_is_shown_whole_and_unmarked(posterior):
    found = compare_posteriors({"near": posterior(1, mean=4.0), "wide": posterior(2, sd=3.0)}, posterior(0))
    axes = pictures.forest(Figure(), found)
    assert 5.0 < axes.get_xlim()[1] < 7.0
    assert axes.get_xlabel() == "mean and 95% interval of the coefficient"
    figure = Figure()
    pictures.marginals(figure, found)
    assert figure.get_supxlabel() == "coefficient"


def test_a_peak_far_above_the_references_leaves_it_a_quarter(posterior):
    figure = Figure()
    found = compare_posteriors({"narrow": posterior(1, sd=0.01)}, posterior(0))
    panel = pictures.marginals(figure, found).flat[0]
    assert panel.get_ylim()[1] < 2.0  # the reference's peak is 0.4, that of the others 40
    assert len(panel.collections) == 2
    assert "peak beyond" in figure.get_supxlabel()
