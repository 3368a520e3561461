"""Streams by a formula: tables block by block, with text and groups, as one build of all rows; input that is refused.

Posteriors are compared by the normal density nearest each (`find_centre`), to 1e-3 sds, so that nothing is random.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.coresets import cell_centre, multilevel
from bayescore.coresets.cells import CellPosterior, Cells
from bayescore.coresets.multilevel import Multilevel, MultilevelState
from bayescore.families.family import FAMILIES
from bayescore.files import read_checkpoint, write_checkpoint
from bayescore.priors import Normal
from bayescore.validation import DataError

FLAT, GROUPED = "y ~ age * device + log(price)", "y ~ age + device + (1 | g)"
QUIET = {"progressbar": False}
ROWS, BLOCKS = 6000, 5


def month(seed, n=ROWS):
    """Return rows; later months have groups that earlier ones lack."""
    rng = np.random.default_rng([320, seed])
    rows = pd.DataFrame(
        {
            "age": rng.gamma(3.0, 12.0, n),
            "device": rng.choice(["phone", "tablet"], n),
            "price": np.exp(rng.normal(size=n)),
            "w": rng.integers(0, 3, n).astype(float),
            "n": rng.integers(1, 6, n),
            "t": rng.uniform(0.5, 2.0, n),
            "off": rng.normal(0.0, 0.3, n),
            "g": rng.integers(seed, 30 + seed, n),
            "h": rng.integers(0, 5, n),
        }
    )
    u = np.random.default_rng(99).normal(0.0, 0.5, 60)[rows["g"]]
    eta = 0.03 * (rows["age"] - 36) - 0.8 * (rows["device"] == "tablet") + 0.4 * np.log(rows["price"]) - 1.0 + u
    p = 1.0 / (1.0 + np.exp(-eta))
    rows["k"], rows["c"] = rng.binomial(rows["n"], p), rng.poisson(rows["t"] * np.exp(0.5 * eta))
    return rows.assign(y=np.where(rng.random(n) < p, "yes", "no"))


MONTHS = [month(seed) for seed in range(BLOCKS)]
ALL = pd.concat(MONTHS, ignore_index=True)


def fed(blocks, stream):
    for block in blocks:
        stream = stream.partial_fit(block)
    return stream


def centre(rows, design, family):
    """Return mean and sds of the coefficients, and sds of cells' effects, of the density nearest the posterior."""
    data = MultilevelState(Multilevel(), design, family)._dataset(rows)
    cells, columns = Cells.of(data), multilevel.varying_columns(data.design)
    unit = np.ones(len(columns))
    start = CellPosterior.start(np.zeros(data.n_features), 0.25 * np.eye(len(columns)), len(cells), columns)
    found, _ = cell_centre.find_centre(
        cells.coded_by_cell(data),
        start,
        FAMILIES[family],
        (Normal(0.0, 4.0), unit),
        lambda centre: (centre.points.integrated(centre.shares, cells.coded_by_cell(data).load()), None),
    )
    at = found.points.at
    return at.beta, at.sds, np.sqrt(np.diagonal(at.prior))


def off(core, full, monkeypatch):
    """Return the largest errors of means, in sds, of sds, and of sds of effects, relative."""
    monkeypatch.setattr(cell_centre, "NEAR", 1e-3)
    (a, sd, s), (b, other, t) = (centre(rows, rows.design, rows.family) for rows in (core, full))
    return np.abs((a - b) / other).max(), np.abs(sd / other - 1.0).max(), np.abs(s / t - 1.0).max()


@pytest.mark.parametrize(
    ("formula", "options"),
    [(FLAT, {"size": 100}), (FLAT, {"method": "online", "size": 100}), (GROUPED, {})],
    ids=["merge_reduce", "online", "multilevel"],
)
def test_a_stream_of_tables_is_a_build_of_all_rows(formula, options, tmp_path):
    known = bc.build_coreset(ALL, formula=formula, weights="w", size=options.get("size", "auto"), **QUIET).design

    def stream():
        return bc.stream(design=known, random_state=3, **options)

    method = {"method": options.get("method", "multilevel" if formula == GROUPED else "merge_reduce")}
    size = {"size": options["size"]} if options else {}
    whole = bc.build_coreset(ALL, design=known, random_state=3, **method, **size, **QUIET)
    path = tmp_path / "rows.parquet"
    ALL.to_parquet(path)
    for blocks in (MONTHS, [ALL], [ALL[start : start + 777] for start in range(0, len(ALL), 777)], [path]):
        core = fed(blocks, stream()).coreset()
        assert core.rows_digest == whole.rows_digest
        np.testing.assert_array_equal(core.index, whole.index)
        assert (core.n_total, core.weight_total, core.label) == (whole.n_total, whole.weight_total, "y")
        assert core.design == whole.design
        assert core.design.roles == whole.design.roles
        assert core.classes == ("no", "yes")
    assert fed(MONTHS[1:], stream()).coreset().rows_digest != whole.rows_digest


GROUP_TERMS = {
    "(1 | g)": ("y ~ age + device + (1 | g)", "logistic", {"positive": "no"}),
    "slopes": ("y ~ age + device + (1 + device | h)", "logistic", {}),
    "crossed": ("y ~ age + (1 | g) + (1 | h)", "probit", {}),
    "trials": ("k | trials(n) ~ age + device + (1 | g)", "logistic", {}),
    "counts": ("c ~ age + device + (1 | g)", "poisson", {"exposure": "t"}),
    "offset": ("y ~ age + device + (1 | g)", "cloglog", {"offset": "off"}),
}


# streams of one factor and of two, of labels and of counts: the others differ from these in what all rows share
QUICK = ("(1 | g)", "crossed", "counts")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in GROUP_TERMS]
)
def test_blocks_that_are_condensed_one_after_another_are_as_all_rows(name, monkeypatch):
    formula, family, roles = GROUP_TERMS[name]
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)

    def streamed(blocks):
        return fed(blocks, bc.stream(formula=formula, family=family, random_state=1, **roles)).coreset()

    core = streamed(MONTHS)
    full = bc.all_rows(ALL, formula=formula, family=family, **roles, **QUIET)
    assert core.n_total == full.n_total
    assert core.weight_total == full.weight_total
    assert len(core) < 0.15 * len(full)
    assert {*core.groups[0].levels} == {*full.groups[0].levels}
    assert core.classes == full.classes
    mean, sd, effects = off(core, full, monkeypatch)
    assert mean < 0.05  # of blocks of 6,000 rows: of second order in how far the centre moves after the first
    assert sd < 0.02
    assert effects < 0.02
    others = streamed(MONTHS[:-1])  # the control
    assert off(others, full, monkeypatch)[0] > 0.2
    cut = streamed([*MONTHS[:1], *(ALL[start : start + 1900] for start in range(ROWS, len(ALL), 1900))])
    assert {*cut.groups[0].levels} == {*core.groups[0].levels}
    turned = streamed([MONTHS[0], *MONTHS[:0:-1]])
    assert off(turned, full, monkeypatch)[0] < 0.05
    assert turned.rows_digest != core.rows_digest


def test_the_cut_does_not_matter_where_the_groups_are_known(monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)
    known = bc.build_coreset(ALL, formula=GROUPED, **QUIET).design
    cuts = (MONTHS, [ALL], [ALL[start : start + 1234] for start in range(0, len(ALL), 1234)])
    digests = {fed(blocks, bc.stream(design=known, random_state=1)).coreset().rows_digest for blocks in cuts}
    assert len(digests) == 1


def test_arrays_with_groups(monkeypatch):
    """Which label is +1 shows late: rows are mirrored in the end."""
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)
    rows = pd.concat([ALL[ALL["y"] == "yes"][:50], ALL], ignore_index=True)
    stream = bc.stream("multilevel", intercept=True, random_state=1)
    for start in range(0, len(rows), 50):
        block = rows[start : start + 50]
        stream.partial_fit(block[["age", "price"]], block["y"], groups={"g": block["g"].to_numpy()})
    full = bc.all_rows(rows, formula="y ~ age + price + (1 | g)", **QUIET)
    core = stream.coreset()
    assert core.classes == ("no", "yes")
    assert core.groups == full.groups
    mean, sd, effects = off(core, full, monkeypatch)
    assert max(mean, sd, effects) < 0.02
    with pytest.raises(DataError, match=r"method='multilevel' needs groups.*'merge_reduce' to a stream"):
        bc.stream("multilevel").partial_fit(rows[["age"]], rows["y"])


BY_NAME = {"age": Normal(0.0, 0.1), "*": Normal(0.0, 2.0)}


@pytest.mark.parametrize(("formula", "options"), [(FLAT, {"size": 60}), (GROUPED, {}), (GROUPED, {"prior": BY_NAME})])
def test_a_checkpoint_goes_on_to_the_same_bits(formula, options, tmp_path, monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: 2000)
    stream = fed(MONTHS[:4], bc.stream(formula=formula, weights="w", positive="no", random_state=1, **options))
    stream.save(tmp_path / "half")
    whole = fed(MONTHS[4:], stream).coreset()
    resumed = bc.read_stream(tmp_path / "half")
    assert resumed.n_rows == (pd.concat(MONTHS[:4])["w"] > 0).sum()
    core = fed(MONTHS[4:], resumed).coreset()
    assert core.rows_digest == whole.rows_digest
    assert core.design == whole.design
    assert core.design.roles == whole.design.roles == (("label", "y"), ("weights", "w"))
    assert core.classes == whole.classes == ("yes", "no")
    assert core.params.get("prior") == whole.params.get("prior")
    np.testing.assert_array_equal(core.index, whole.index)


@pytest.mark.parametrize(
    "part", ["start_mean", "start_codes", "start_beta", "start_effects", "start_common", "start_prior"]
)
def test_a_forged_start_is_refused(part, tmp_path, monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: 2000)
    fed(MONTHS[:2], bc.stream(formula=GROUPED, random_state=1)).save(tmp_path / "whole")
    header, arrays = read_checkpoint(tmp_path / "whole", "StreamingCoreset")
    write_checkpoint(tmp_path / "whole", "StreamingCoreset", header, arrays)
    bc.read_stream(tmp_path / "whole")
    for forged in ({part: arrays[part][:-1]}, {part: np.zeros((2, 2, 2))}):
        write_checkpoint(tmp_path / "forged", "StreamingCoreset", header, arrays | forged)
        with pytest.raises(DataError, match="content that does not"):
            bc.read_stream(tmp_path / "forged")


@pytest.mark.slow
def test_a_coreset_of_a_stream_is_as_any_other(tmp_path):
    stream = fed(MONTHS[:2], bc.stream(formula=GROUPED, weights="w", random_state=1))
    core = stream.coreset()
    rows = pd.concat(MONTHS[:2], ignore_index=True)
    idata = bc.sample(core, random_seed=1, **QUIET)
    assert bc.certify(idata, core, rows, **QUIET).level == "certified"
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    assert again.rows_digest == core.rows_digest
    assert again.design.roles == core.design.roles
    fit = bc.Fit.from_draws(idata, core, rows)
    assert fit.level == "certified"
    assert len(fit.effects("g")) == 31
    assert fit.update(MONTHS[2], **QUIET).coreset.n_total == (ALL["w"][: 3 * ROWS] > 0).sum()
    assert fit.predict(MONTHS[2], new_groups="average")["mean"].between(0.0, 1.0).all()


def test_blocks_that_few_groups_share_wait_for_others(monkeypatch):
    """A block of one group, and one of one label, are no reason to stop."""
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: 2000)
    first = MONTHS[0].assign(g=0)
    stream = bc.stream(formula=GROUPED, random_state=1).partial_fit(first)
    with pytest.raises(DataError, match="groups='g' has one level"):
        stream.coreset()
    yes = MONTHS[1][MONTHS[1]["y"] == "yes"]
    with pytest.warns(UserWarning, match="has moved by .* sds .*are the rows sorted.*effects may be off by sds"):
        core = fed([yes, MONTHS[2]], stream).coreset()
    assert core.n_total == 2 * ROWS + len(yes)
    assert core.params["moved"] > 4.0
    full = bc.all_rows(pd.concat([first, yes, MONTHS[2]], ignore_index=True), formula=GROUPED, **QUIET)
    assert off(core, full, monkeypatch)[0] > 0.03


def swinging(sorting, seed=0, n=24_000, n_groups=40):
    """Return rows that come, with `sorting`, with successes of even groups, and failures of odd ones, last."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"x": rng.normal(size=n), "g": rng.integers(0, n_groups, n)})
    rows["y"] = rng.normal(0.0, 0.7, n_groups)[rows["g"]] + rng.logistic(size=n) > 0
    late = np.where(rows["g"] % 2 == 0, rows["y"], ~rows["y"])
    return rows.iloc[np.argsort(sorting * late + rng.normal(size=n), kind="stable")]


def test_effects_that_move_are_warned_of_where_coefficients_do_not(monkeypatch):
    """The control has the same rows in random order; there a warning has a probability of about 0.002."""
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: 4000)

    def streamed(rows):
        return bc.stream(formula="y ~ x + (1 | g)", random_state=1).partial_fit(rows).coreset()

    with pytest.warns(UserWarning, match="means and effects may be off by sds"):
        core = streamed(swinging(3.0))
    assert core.params["moved"] > core.params["moved_limit"]
    full = bc.all_rows(swinging(3.0), formula="y ~ x + (1 | g)", **QUIET)
    assert off(core, full, monkeypatch)[0] > 1.0
    control = streamed(swinging(0.0))
    assert control.params["moved"] < control.params["moved_limit"]
    assert off(control, full, monkeypatch)[0] < 0.05


def test_groups_beside_a_formula_are_as_group_terms(tmp_path):
    """A column of every block, as in `build_coreset`; the method for groups is then the default."""
    named = fed(MONTHS[:2], bc.stream(formula="y ~ age", groups="g", random_state=1))
    named.save(tmp_path / "half")
    core, one = bc.read_stream(tmp_path / "half").coreset(), named.coreset()
    term = fed(MONTHS[:2], bc.stream(formula="y ~ age + (1 | g)", random_state=1)).coreset()
    assert core.method == "multilevel"
    assert core.groups == term.groups
    assert core.rows_digest == one.rows_digest == term.rows_digest
    two = fed(MONTHS[:1], bc.stream(formula="y ~ age", groups=["g", "h"], random_state=1)).coreset()
    assert [own.name for own in two.groups] == ["g", "h"]


@pytest.mark.parametrize("role", ["offset", "exposure", "groups"])
def test_an_array_that_a_later_block_lacks_is_named_by_its_argument(role):
    name, formula = {"offset": "off", "exposure": "t", "groups": "g"}[role], "y ~ age"
    options = {"family": "poisson"} if role == "exposure" else {}
    if options:
        formula = "c ~ age"
    rows, beside = MONTHS[0].drop(columns=name), MONTHS[0][name].to_numpy()
    options |= {"method": "multilevel"} if role == "groups" else {"size": 60}
    stream = bc.stream(formula=formula, random_state=1, **options)
    given = {role: {"g": beside} if role == "groups" else beside}
    n_rows = stream.partial_fit(rows, **given).n_rows
    with pytest.raises(DataError, match=f"block 1: {role} is missing: earlier rows had one.*give {role}=, one"):
        stream.partial_fit(rows)
    assert stream.partial_fit(rows, **given).n_rows == 2 * n_rows
    with pytest.raises(DataError, match=f"{role} is missing: earlier rows had one.*give {role}="):
        bc.build_coreset(rows, design=stream.coreset().design, label=formula[0], family=stream.family, **QUIET)


@pytest.mark.parametrize("formula", ["y ~ age", None])
def test_weights_that_a_later_block_lacks_are_not_taken_for_1(formula):
    rows = MONTHS[0]
    first = (rows,) if formula else (rows[["age"]].to_numpy(), rows["y"].to_numpy())
    stream = bc.stream(formula=formula, size=60, random_state=1)
    stream.partial_fit(*first, weights=np.full(len(rows), 2.0))
    with pytest.raises(DataError, match="block 1: weights is missing: earlier rows had some; give weights="):
        stream.partial_fit(*first)
    n_rows = stream.partial_fit(*first, weights=np.ones(len(rows))).n_rows
    assert n_rows == 2 * len(rows.dropna(subset=["age", "y"]))


@pytest.mark.parametrize("option", [{"classes": (0, 1)}, {"positive": 1}, {"classes": (0, 1, 2)}])
@pytest.mark.parametrize("formula", ["c ~ age", None])
def test_counts_have_no_positive_label(option, formula):
    with pytest.raises(DataError, match="family='poisson' takes counts, which have no positive label; leave it out"):
        bc.stream(size=60, formula=formula, family="poisson", **option)


def test_negative_binomial_counts_of_groups(monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)
    options = {"formula": "c ~ age + (1 | g)", "family": "negative_binomial(2.0)"}
    core = fed(MONTHS, bc.stream(random_state=1, **options)).coreset()
    assert core.n_total == bc.all_rows(ALL, **options, **QUIET).n_total
    assert len(core) < 0.05 * core.n_total


def test_effects_that_cannot_be_condensed_are_refused_at_the_first_block():
    stream = bc.stream(formula="y ~ 0 + age + (1 + age | g)", random_state=1)
    with pytest.raises(DataError, match="intercept and slopes vary by group"):
        stream.partial_fit(MONTHS[0])
    assert stream.n_rows == 0


def test_a_centre_that_is_not_found_costs_rows_only(monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)
    found = multilevel.condense

    def sometimes(dataset, prior, family, start=None):
        if start is None and len(dataset.rows.y) < 3 * ROWS:
            raise ArithmeticError
        return found(dataset, prior, family, start)

    monkeypatch.setattr(multilevel, "condense", sometimes)
    core = fed(MONTHS, bc.stream(formula=GROUPED, random_state=1)).coreset()
    assert core.n_total == len(ALL)
    assert off(core, bc.all_rows(ALL, formula=GROUPED, **QUIET), monkeypatch)[0] < 0.02


def test_a_search_that_begins_at_the_last_centre_is_not_longer(monkeypatch):
    monkeypatch.setattr(Multilevel, "stream_block", lambda *_: ROWS)
    state = fed(MONTHS, bc.stream(formula=GROUPED, random_state=1))._state
    rows, starts, passes = state._rows(None), (None, state.start), []
    for start in starts:
        data = state._dataset(rows)
        multilevel.condense(data, Normal(0.0, 4.0), FAMILIES["logistic"], start)
        passes.append(data.n_passes)
    assert passes[1] <= passes[0]


REFUSED = {
    "a column less": (lambda b: b.drop(columns="age"), "no feature 'age'"),
    "no label": (lambda b: b.drop(columns="y"), "label='y' is not a column"),
    "no weights": (lambda b: b.drop(columns="w"), "weights='w' is not a column"),
    "another level": (lambda b: b.assign(device="watch"), "the level 'watch' in row 0.*'phone', 'tablet'"),
    "numbers for text": (lambda b: b.assign(device=1.0), "'device' is double, and held text before"),
    "text for numbers": (lambda b: b.assign(age=b["age"].astype(str)), "'age' is .*string, and held numbers"),
    "no rows": (lambda b: b[:0], "empty table"),
    "another label": (lambda b: b.assign(y="maybe"), "label 'maybe'.*'no' and 'yes'"),
    "a gap": (lambda b: b.assign(w=1.0, age=b["age"].where(b.index != 7)), "'age' is nan in row 7.*1 of 6,000"),
    "negative weights": (lambda b: b.assign(w=-1.0), "weights must be positive"),
    "no weight": (lambda b: b.assign(w=0.0), "no row is left: all weigh 0"),
    "an array": (lambda b: b[["age"]].to_numpy(), "y is missing"),
    "an iterator": (lambda b: iter([b]), "rows come once"),
    "a coreset": (lambda b: bc.all_rows(b, formula=GROUPED, **QUIET), "the rows are a Coreset"),
}
OF_GROUPS = {
    "no groups": (lambda b: b.drop(columns="g"), "groups='g' is not a column"),
    "other groups": (lambda b: b.assign(g="a"), "'g'. is string, and its levels are int64"),
    "parts of groups": (lambda b: b.assign(g=b["g"] + 0.5), "numbers that are not whole"),
}


@pytest.mark.parametrize(("formula", "options"), [(FLAT, {"size": 60}), (GROUPED, {})])
def test_a_block_that_is_refused_changes_nothing(formula, options):
    stream = bc.stream(formula=formula, weights="w", random_state=1, **options).partial_fit(MONTHS[0])
    before = stream.coreset().rows_digest, stream.n_rows
    for change, message in [*REFUSED.values(), *(OF_GROUPS.values() if formula == GROUPED else [])]:
        with pytest.raises(DataError, match=f"^block 1: .*{message}"):
            stream.partial_fit(change(MONTHS[1]))
        assert (stream.coreset().rows_digest, stream.n_rows) == before
    block = MONTHS[1].drop(columns=["y", "w"])
    for given, message in (
        ({"offset": block["off"]}, "offset is given, but the blocks before it had none"),
        ({"weights": [1.0]}, "weights has shape"),
    ):
        with pytest.raises(DataError, match=message):
            stream.partial_fit(block, MONTHS[1]["y"], **{"weights": MONTHS[1]["w"], **given})
    assert (stream.coreset().rows_digest, stream.n_rows) == before
    beside = stream.partial_fit(block, MONTHS[1]["y"], MONTHS[1]["w"]).coreset()
    named = fed(MONTHS[:2], bc.stream(formula=formula, weights="w", random_state=1, **options)).coreset()
    assert beside.rows_digest == named.rows_digest


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({}, {"formula": None, "design": "y ~ x"}, TypeError, "design is a str; give core.design, or formula="),
        ({"y": "no"}, {}, DataError, r"block 0: .*one class only, 'no'.*\. The first block.*classes="),
        ({"device": "phone"}, {}, DataError, "block 0: .*one level only, 'phone'.*begin with one that has them all"),
        ({"y": range(ROWS)}, {}, DataError, "block 0: .*classes"),
        ({}, {"formula": "y ~ nothing + (1 | g)"}, DataError, "block 0: .*'nothing'"),
        ({}, {"formula": "y ~ (1 |"}, DataError, "bar outside a group term"),
        ({}, {"positive": "perhaps"}, DataError, "block 0: positive='perhaps' is no class"),
        ({}, {"classes": ("a", "b")}, DataError, "block 0: .*label 'no'"),
        ({}, {"formula": FLAT}, TypeError, "size is missing: method='merge_reduce'"),
        ({}, {"formula": FLAT, "method": "multilevel"}, DataError, "method='multilevel' needs groups"),
        ({}, {"size": 50}, ValueError, "takes no size"),
        ({}, {"intercept": True}, ValueError, "intercept=True is given beside formula="),
        ({}, {"weights": np.ones(3)}, TypeError, "weights must be the name of a column"),
        ({}, {"missing": "no"}, ValueError, "missing='no'"),
        ({}, {"design": bc.build_coreset(MONTHS[0], formula=GROUPED, **QUIET).design}, TypeError, "both given"),
        ({}, {"formula": None, "size": 9, "weights": "w"}, TypeError, "weights='w' goes with a formula or a design"),
        ({}, {"groups": "h"}, DataError, "groups is given beside formula=.*, which has group terms"),
        ({}, {"groups": np.ones(3)}, TypeError, "groups must be the name of a column"),
    ],
)
def test_a_beginning_that_is_refused(change, options, error, message):
    with pytest.raises(error, match=message):
        bc.stream(**{"formula": GROUPED, **options}).partial_fit(MONTHS[0].assign(**change))


def test_a_role_that_there_is_not():
    with pytest.raises(TypeError, match="roles has 'nonsense'; the names are label, weights"):
        bc.StreamingCoreset(Multilevel(), formula=GROUPED, roles={"nonsense": "a"})


def test_labels_named_beforehand_need_not_be_in_the_first_block():
    stream = bc.stream(formula=GROUPED, classes=("yes", "no"), positive="no", random_state=1)
    core = fed([MONTHS[0][MONTHS[0]["y"] == "no"], MONTHS[1]], stream).coreset()
    assert core.classes == ("yes", "no")
    design = core.design
    with pytest.raises(ValueError, match=re.escape("classes=('yes', 'no') is given beside design")):
        bc.stream(design=design, classes=("yes", "no"))


@pytest.mark.parametrize(("formula", "options"), [(FLAT, {"size": 60}), (GROUPED, {})])
def test_rows_that_miss_something_are_left_out_with_one_warning_a_block(formula, options):
    stream = bc.stream(formula=formula, missing="drop", random_state=1, **options)
    for block in MONTHS[:2]:
        with pytest.warns(UserWarning, match="left out 1 of 6,000 rows") as caught:
            stream.partial_fit(block.assign(age=block["age"].where(block.index != 7)))
        assert len(caught) == 1
    assert stream.partial_fit(MONTHS[2]).n_rows == 3 * ROWS - 2


def test_another_method_says_that_it_ignores_groups():
    stream = bc.stream("merge_reduce", size=60, formula=GROUPED, random_state=1).partial_fit(MONTHS[0])
    with pytest.warns(UserWarning, match="method='merge_reduce' chooses and weighs rows for the coefficients"):
        stream.coreset()


@pytest.mark.parametrize("verb", [bc.build_coreset, bc.all_rows])
def test_builds_refuse_a_design_that_is_none(verb):
    with pytest.raises(TypeError, match="design is a str; give"):
        verb(pd.DataFrame({"x": [0.0, 1.0], "y": [0, 1]}), design="y ~ x", progressbar=False)


def test_a_column_far_from_0_is_warned_of_once():
    rows = pd.DataFrame({"year": 2000 + np.arange(40) % 20, "x": np.arange(40) % 7 - 3.0, "y": np.arange(40) % 2})
    stream = bc.stream(formula="y ~ year + x", size=20, random_state=0)
    with pytest.warns(UserWarning, match=r"'year' has the mean 2010 and the sd 5.8.*as in I\(year - 2010\)"):
        stream.partial_fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(rows)
        bc.stream(formula="y ~ I(year - 2010) + x", size=20, random_state=0).partial_fit(rows)


def test_of_one_value_or_of_yes_and_no_a_column_is_far_only_where_it_matters():
    rows = pd.DataFrame({"x": np.arange(2000) % 7 - 3.0, "y": np.arange(2000) % 2})
    with pytest.warns(UserWarning, match="'year' has the one value 2000 so far"):
        bc.stream(formula="y ~ year + x", size=20, random_state=0).partial_fit(rows.assign(year=2000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = rows.assign(tenth=0.1, often=(np.arange(2000) != 7).astype(float))
        bc.stream(formula="y ~ often + tenth + x", size=20, random_state=0).partial_fit(own)
