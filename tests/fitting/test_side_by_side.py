"""Tables of fits side by side: their figures, and names that each format would take for its own marks."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.fitting.tables import render_table

QUIET = {"progressbar": False}
ODD = r"rate_%|a&b<$#{x}~^\y>*"


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(5)
    n = 1500
    rows = pd.DataFrame({ODD: rng.normal(size=n), "arm": rng.choice(["a", "b"], n), "clinic": rng.integers(0, 9, n)})
    rows["days"] = rng.uniform(1, 3, n)
    eta = 0.4 * rows[ODD] + 0.5 * (rows["arm"] == "b")
    rows["y"], rows["n"] = eta + rng.logistic(size=n) > 0, rng.poisson(rows["days"] * np.exp(eta / 2))
    return (
        bc.fit(rows[[ODD, "arm", "y"]], label="y", random_state=1, **QUIET),
        bc.fit("y ~ arm + (1 | clinic)", rows, random_state=1, **QUIET),
        bc.fit("n ~ arm", rows, exposure="days", family="poisson", random_state=1, **QUIET),
    )


pytestmark = pytest.mark.filterwarnings("ignore:columns of text are coded")


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows = []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and data.strip():
            self.rows[-1][-1] += data


def cells(text, format):
    """Return the cells of a table by row, as a reader sees them."""
    if format == "html":
        read = Cells()
        read.feed(text)
        return {row[0]: row[1:] for row in read.rows}
    found = {}
    for line in text.splitlines():
        if format == "markdown" and line.startswith("| ") and "---" not in line:
            row = [html.unescape(re.sub(r"\\(.)", r"\1", own)).strip() for own in re.split(r"(?<!\\)\|", line)[1:-1]]
        elif format == "latex" and line.endswith(r" \\") and "multicolumn" not in line:
            row = [unlatex(own).strip() for own in re.split(r"(?<!\\)&", line.removesuffix(r" \\"))]
        elif format == "text" and "  " in line:
            row = re.split(r" {2,}", line)
            if len(row) < 4:
                continue
        else:
            continue
        found[row[0]] = row[1:]
    return found


def unlatex(text):
    for mark, character in (
        ("textasciitilde", "~"), ("textasciicircum", "^"), ("textless", "<"), ("textgreater", ">"), ("textbar", "|"),
    ):  # fmt: skip
        text = text.replace(f"\\{mark}{{}}", character)
    text = text.replace("$-$", "−").replace(r"\textbackslash{}", "\0").replace("--", "–")
    return re.sub(r"\\([&%$#_{}])", r"\1", text).replace("\0", "\\")


@pytest.mark.parametrize("format", ["text", "markdown", "html", "latex"])
def test_each_format_shows_names_and_figures_as_they_are(fits, format):
    flat, grouped, counts = fits
    found = cells(flat.table(grouped, counts, format=format), format)
    summary = flat.summary()
    if format != "text":  # where empty cells are blanks
        assert found[ODD][1:] == ["", ""]
        assert found["sigma_clinic"][0] == found["sigma_clinic"][2] == ""
        assert found["Groups of clinic"] == ["", "9", ""]
        assert list(found)[1:4] == ["Intercept", ODD, "arm[b]"]
    assert found["Observations"] == ["1,500"] * 3
    assert found["Family"] == ["logistic", "logistic", "poisson"]
    assert found["Draws"] == [fit.level for fit in fits]
    for fit, cell in zip(fits, found["arm[b]"], strict=True):
        mean, low, high = map(float, re.findall(r"-?\d+\.\d+", cell.replace("−", "-")))
        row = fit.summary().loc["arm[b]"]
        assert np.allclose([mean, low, high], row[["mean", "2.5%", "97.5%"]], atol=0.05 * row["sd"])
        assert len(cell.split(".")[1].split()[0]) == 1 - int(np.floor(np.log10(row["sd"])))
    assert summary.index.tolist()[1] == ODD
    known = [flat.certificate.elpd_loo, flat.certificate.elpd_loo_se]
    elpd, se = re.findall(r"[\d.]+", re.search(r"elpd\W.*?([\d,.]+ \([\d.]+)", flat.table())[1].replace(",", ""))
    assert [-float(elpd), float(se)] == pytest.approx(known, abs=0.06)


def test_names_scale_and_interval_are_chosen(fits):
    text = fits[0].table(fits[1], names=["with_rate", "by clinic"], scale="odds", prob=0.9, format="latex")
    assert r" & with\_rate & by clinic \\" in text
    assert r"Odds ratios: mean and 90\% interval" in text
    assert "Intercept" not in text
    mean = fits[0].summary(scale="odds")["mean"]["arm[b]"]
    assert f"arm[b] & {mean:.2f} (" in text
    with pytest.raises(ValueError, match="names has 1 entries for 2 fits"):
        fits[0].table(fits[1], names=["one"])
    with pytest.raises(TypeError, match=r"others has a .*Table; give fits"):
        fits[0].table(fits[1].summary())
    with pytest.raises(ValueError, match="format='word'"):
        fits[0].table(format="word")
    with pytest.raises(ValueError, match="scale='response'"):
        fits[0].table(scale="response")


def test_rows_that_begin_with_a_bracket_do_not_end_the_line_before():
    rows = {"[low,mid)": ["1"], "*star": ["2"], "two\nlines": ["3"]}
    lines = render_table("latex", ["(1)"], [rows], "note").splitlines()
    assert r"{}[low,mid) & 1 \\" in lines
    assert r"{}*star & 2 \\" in lines
    assert r"two lines & 3 \\" in lines


def test_a_fit_without_its_rows_still_has_a_table(fits, tmp_path):
    for k, fit in enumerate(fits):
        fit.save(tmp_path / str(k))
        again = bc.read_fit(tmp_path / str(k)).table(format="text")
        known = fit.table(format="text")
        assert again.splitlines()[:4] == known.splitlines()[:4]
