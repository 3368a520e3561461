"""Methods as values: names, options and declarations say all that builders, streams, command line and pages need."""

import inspect
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import cli
from bayescore.coresets import merge_reduce
from bayescore.coresets.method import AnchoredReducer, BuildInfo, Method, check_serves
from bayescore.coresets.methods import METHODS, method_of
from bayescore.coresets.single import REDUCERS
from tests.coresets.first_rows import First

CHOOSE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "choose.md"
N = 700
_rng = np.random.default_rng(2)
X = _rng.normal(size=(N, 3))
Y = np.where(X[:, 0] + _rng.logistic(size=N) > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=Y)


def build(data=X, y=Y, **options):
    return bc.build_coreset(data, y, **{"size": 60, "random_state": 3, "progressbar": False, **options})


def assert_same(core, other):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(core, name), getattr(other, name))
    assert (core.method, core.n_total, core.classes) == (other.method, other.n_total, other.classes)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_declares_itself_and_documents_its_options(name):
    kind = METHODS[name]
    assert issubclass(kind, Method)
    assert kind.name == name
    assert set(kind.size_options) <= {field.name for field in fields(kind)}
    documented = inspect.cleandoc(kind.__doc__)  # 3.13 has it dedented
    for field in fields(kind):
        assert re.search(rf"^(\w+, )*{field.name}(, \w+)* : ", documented, re.MULTILINE), field.name
    with pytest.raises(FrozenInstanceError):
        kind().name = "other"
    assert name == "auto" or getattr(bc.methods, kind.__name__) is kind


GIVEN = {
    "sensitivity": (bc.methods.Sensitivity(clusters=3, radius=1.0), {"clusters": 3, "radius": 1.0}),
    "leverage": (bc.methods.Leverage(scores="sketch"), {"scores": "sketch"}),
    "merge_reduce": (bc.methods.MergeReduce(leaf_rows=200), {"leaf_rows": 200}),
    "calibrated": (bc.methods.Calibrated(prior=bc.priors.Normal(0.0, 1.0)), {"prior": bc.priors.Normal(0.0, 1.0)}),
}


@pytest.mark.filterwarnings("ignore:no weights on these:UserWarning")
@pytest.mark.filterwarnings("ignore:expect errors:UserWarning")
@pytest.mark.parametrize("name", GIVEN)
def test_a_method_is_a_name_with_options(name):
    method, options = GIVEN[name]
    core = build(method=method)
    assert_same(core, build(method=name, **options))
    assert core.params == build(method=name, **options).params
    assert method_of(name, options) == method
    first = next(iter(options))
    with pytest.raises(TypeError, match=f"'{first}' is given beside method={type(method).__name__}.*give it there"):
        build(method=method, **options)


def test_facts_are_params_without_what_is_none_and_with_those_within():
    tree = merge_reduce.TreeInfo("leverage", 3, 8, None, epsilon=0.5, delta=0.1)
    assert tree.params() == {"reducer": "leverage", "leaves": 3, "node_size": 8, "epsilon": 0.5, "delta": 0.1}
    assert BuildInfo().params() == {}
    core = build(method="merge_reduce", size=40, leaf_rows=200)
    assert list(core.params)[:5] == ["reducer", "leaves", "node_size", "levels", "prior"]


def test_trees_reduce_by_every_method_that_can():
    assert set(REDUCERS) == {"sensitivity", "leverage", "calibrated", "condensed"}
    assert {name for name, kind in REDUCERS.items() if issubclass(kind, AnchoredReducer)} == {"calibrated", "condensed"}


def test_the_methods_that_fit_are_named():
    with pytest.raises(ValueError, match=r"likelihood only; family='probit': use '.*'calibrated'") as caught:
        check_serves(bc.methods.Sensitivity(), "probit", METHODS)
    assert "'sensitivity' or" not in str(caught.value)
    with pytest.raises(ValueError, match=r"reducer='sensitivity' bounds .* 'calibrated' or 'condensed' or 'leverage'"):
        build(method="merge_reduce", reducer="sensitivity", family="probit")
    with pytest.raises(ValueError, match=r"the methods 'auto', 'uniform', 'online', 'aggregate', 'merge_reduce' fit"):
        build(iter([(X, Y)]), None, method="leverage")
    with pytest.raises(TypeError, match="'tolerance' is not an option of method='merge_reduce', which 'auto' uses for"):
        build(iter([(X, Y)]), None, size="auto", tolerance=0.1)


def table():
    """Return the documentation's table of methods: name -> (likelihoods, whether one pass will do)."""
    text = CHOOSE.read_text(encoding="utf-8")
    lines = text[text.index("| `method` | family |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): (row[1], row[2]) for row in cells}


def test_the_documentation_has_the_methods_as_they_declare_themselves():
    declared = {
        name: (
            "all" if kind.families is None else ", ".join(kind.families),
            "one" if kind.one_pass else "several",
        )
        for name, kind in METHODS.items()
    }
    assert table() == declared


def test_the_command_line_names_every_method(capsys):
    with pytest.raises(SystemExit):
        cli.main(["build", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert ", ".join(METHODS) in shown
    with pytest.raises(SystemExit):
        cli.main(["build", "rows.parquet", "--label", "y", "--method", "magic", "-o", "new.parquet"])
    assert "invalid choice: 'magic'" in capsys.readouterr().err


# --- a method more ------------------------------------------------------------------------------------------


@pytest.fixture
def first(monkeypatch):
    """A new method: its file is `first_rows`, its line this one."""
    monkeypatch.setitem(METHODS, "first", First)


def blocks():
    return ((X[i : i + 90], Y[i : i + 90]) for i in range(0, N, 90))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask
def test_a_new_method_builds_from_every_source(first, tmp_path):
    core = build(method="first", skip=5)
    assert core.index.tolist() == list(range(5, 65))
    np.testing.assert_array_equal(core.weights, np.full(60, N / 60))
    assert (core.method, core.params) == ("first", {"skipped": 5, "passes": 2})
    FRAME.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    assert_same(build(tmp_path / "rows.parquet", None, label="label", method="first", skip=5), core)
    assert_same(build(blocks, None, method="first", skip=5), core)
    assert_same(build(blocks(), None, method="first", skip=5), core)
    assert_same(build(method=First(skip=5)), core)
    dd = pytest.importorskip("dask.dataframe")
    assert_same(build(dd.from_pandas(FRAME, npartitions=4), None, label="label", method="first", skip=5), core)


def test_a_new_method_is_refused_where_it_does_not_fit(first):
    with pytest.raises(ValueError, match="method='first' bounds the logistic likelihood only; family='probit'"):
        build(method="first", family="probit")
    with pytest.raises(TypeError, match="'size_of' is not an option of method='first', which takes skip"):
        build(method="first", size_of=3)
    with pytest.raises(ValueError, match="skip=-1 must be at least 0"):
        build(method="first", skip=-1)


def test_a_new_method_is_on_the_command_line(first, tmp_path, capsys):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    words = ["build", str(tmp_path / "rows.parquet"), "--label", "label", "--method", "first", "--size", "60"]
    assert cli.main([*words, "--quiet", "-o", str(tmp_path / "core.parquet")]) == 0
    core = bc.read_coreset(tmp_path / "core.parquet")
    assert (core.method, core.index.tolist()) == ("first", list(range(60)))


def test_a_tree_reduces_by_a_new_method(monkeypatch):
    monkeypatch.setitem(REDUCERS, "first", First)
    core = build(method="merge_reduce", reducer="first", size=20, leaf_rows=100)
    assert core.index.tolist() == list(range(20))
    assert core.weights.sum() == pytest.approx(N)
    assert (core.params["reducer"], "epsilon" in core.params) == ("first", False)
