import numpy as np
import pytest
from matplotlib.figure import Figure

from bayescore.report import pictures
from bayescore.report.pictures import Intervals

LOW, HIGH = np.array([-1.0, 4.0]), np.array([1.0, 6.0])


def draw(scale):
    base = Intervals("reference", np.array([0.0, 5.0]), LOW, HIGH)
    other = Intervals("other", np.array([0.5, 5.0]), LOW + 0.5, HIGH)
    return pictures.intervals(Figure(), base, np.array(scale), [other], ["a$b", "b"])


def test_intervals_hold_95_percent():
    own = Intervals.of("x", np.arange(101.0)[:, None])
    assert (own.mean[0], own.low[0], own.high[0]) == (50.0, pytest.approx(2.5), pytest.approx(97.5))


def test_coefficients_of_like_size_keep_their_units():
    axes = draw([1.0, 1.0])
    assert axes.get_xlabel() == "mean and 95% interval of the coefficient"
    assert [label.get_text() for label in axes.get_yticklabels()] == [r"a\$b", "b"]
    points = [np.asarray(line.get_xdata()).tolist() for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [0.0, 5.0] in points
    assert [0.5, 5.0] in points


def test_others_are_drawn_in_sds_from_the_mean():
    axes = draw([1.0, 100.0])
    assert "in reference sds from the reference mean" in axes.get_xlabel()
    points = [np.asarray(line.get_xdata()).tolist() for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [0.5, 0.0] in points


def test_long_names_are_cut_and_mathematics_is_not_read():
    assert pictures.short("a_long_name", 6) == "a_lon…"
    assert pictures.short("$x$", 9) == r"\$x\$"


@pytest.mark.parametrize(("high", "shown"), [(200.0, "20"), (1e6, "$\\mathdefault{10^{2}}$")])
def test_few_decades_have_plain_ticks(high, shown):
    axes = Figure().add_subplot()
    axes.set(xscale="log", xlim=(10.0, high))
    pictures.plain_ticks(axes.xaxis)
    axes.figure.canvas.draw()
    assert shown in [label.get_text() for label in axes.get_xticklabels()]


def test_sentences_join_what_is_there():
    assert pictures.sentence("", "a", "", "b") == "a; b"
