"""`Coreset`: its file, its frame, its union, what it prints."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.data.coreset import SHORTFALL_KEY, Coreset, Shortfall, family_or_own, feature_names, read_coreset
from bayescore.data.design import Design
from bayescore.data.parquet import CORESET_KEY, parquet_file
from bayescore.types import WeightedData
from bayescore.validation import DataError

DESIGN = Design(("age", "a.b"), intercept=True, center=(0.1, 1e-300), scale=(1 / 3, 2.0))


def make(n=40, seed=0, classes=("no", "yes"), label="bought", design=DESIGN, **changes):
    rng = np.random.default_rng(seed)
    about = {
        "design": design,
        "classes": classes,
        "label": label,
        "n_total": 1000,
        "weight_total": 1234.5678901234567,
        "method": "sensitivity",
        "family": "logistic",
        "params": {"radius": 0.1 + 0.2, "clusters": 4, "lossless": True, "note": "<b>&", "parts": [{"a": 1}]},
        "random_state": 2**63 + 1,
        "version": "0.1.0",
    }
    X = rng.normal(size=(n, len(design.names)))
    y = np.where(np.arange(n) % 3 == 0, 1, -1).astype(np.int8)
    return Coreset(X, y, rng.uniform(0.01, 90.0, n), rng.permutation(n) * 10**12, **{**about, **changes})


ABOUT = ("design", "classes", "label", "n_total", "weight_total", "method", "family", "params", "random_state")


def assert_same(a, b):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    for name in (*ABOUT, "version"):
        assert getattr(a, name) == getattr(b, name), name
    assert [type(c) for c in a.classes] == [type(c) for c in b.classes]


@pytest.mark.parametrize(
    "classes", [("no", "yes"), (0, 1), (-(2**60), 2**62 + 1), (0.1, 1 / 3), (False, True), ("", "é")]
)
def test_the_file_gives_back_everything_exactly(tmp_path, classes):
    core = make(classes=classes)
    core.save(tmp_path / "core.parquet")
    assert_same(read_coreset(str(tmp_path / "core.parquet")), core)
    assert [p.name for p in tmp_path.iterdir()] == ["core.parquet"]


def test_the_file_is_a_plain_table_for_others(tmp_path):
    core = make()
    core.save(tmp_path / "core.parquet")
    frame = pd.read_parquet(tmp_path / "core.parquet")
    assert list(frame.columns) == ["Intercept", "age", "a.b", "bought", "weight"]
    assert isinstance(frame.index, pd.RangeIndex)
    np.testing.assert_array_equal(frame[["Intercept", "age", "a.b"]].to_numpy(), core.X)
    np.testing.assert_array_equal(frame["bought"] == "yes", core.y == 1)
    np.testing.assert_array_equal(frame["weight"], core.weights)
    pd.testing.assert_frame_equal(
        core.to_frame().reset_index(drop=True), frame, check_dtype=False, check_column_type=False
    )
    np.testing.assert_array_equal(core.to_frame().index, core.index)


def shortfall_of(core, seed=3):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(core.n_features, core.n_features))
    return Shortfall(rng.normal(size=core.n_features), rng.normal(size=core.n_features), root + root.T)


def test_the_file_gives_back_the_shortfall_exactly_and_an_older_one_has_none(tmp_path):
    plain = make()
    core = replace(plain, shortfall=shortfall_of(plain))
    core.save(tmp_path / "core.parquet")
    found = read_coreset(tmp_path / "core.parquet").shortfall
    for name in ("point", "score", "precision"):
        np.testing.assert_array_equal(getattr(found, name), getattr(core.shortfall, name))
    assert found.rows_digest == core.rows_digest
    assert core._file_digest != plain._file_digest
    older = rewritten(tmp_path, lambda table: metadata(table, format=2))
    assert read_coreset(older).shortfall is None


@pytest.mark.slow
def test_the_shortfall_of_5000_columns_is_read_back(tmp_path):
    """It has 100 MB, more than Arrow reads of a footer unless told to."""
    D = 5000
    plain = make(n=3, design=Design(tuple(f"x{d}" for d in range(D))))
    missed = Shortfall(np.zeros(D), np.ones(D), np.diag(np.arange(D, dtype=np.float64)))
    replace(plain, shortfall=missed).save(tmp_path / "core.parquet")
    found = read_coreset(tmp_path / "core.parquet").shortfall
    np.testing.assert_array_equal(np.diagonal(found.precision), np.arange(D))
    with parquet_file(tmp_path / "core.parquet", "is not readable") as rows:
        assert rows.metadata.num_columns == D + 2


@pytest.mark.parametrize("change", ["lost", "cut", "altered"])
def test_a_changed_shortfall_is_refused(change, tmp_path):
    core = make()
    replace(core, shortfall=shortfall_of(core)).save(tmp_path / "core.parquet")
    table = pq.read_table(tmp_path / "core.parquet")
    own = dict(table.schema.metadata)
    numbers = own.pop(SHORTFALL_KEY)
    if change != "lost":
        own[SHORTFALL_KEY] = numbers[8:] if change == "cut" else bytes(8) + numbers[8:]
    pq.write_table(table.replace_schema_metadata(own), tmp_path / "core.parquet")
    with pytest.raises(DataError, match="was changed"):
        read_coreset(tmp_path / "core.parquet")


def test_a_shortfall_is_one_quadratic_whatever_point_it_is_told_about():
    first, second = shortfall_of(make(), 1), shortfall_of(make(), 2)
    points = np.random.default_rng(0).normal(size=(5, 3))
    gap = first.at(points[0]).value(points) - first.value(points)
    np.testing.assert_allclose(gap, gap[0], atol=1e-12)
    gap = (first + second).value(points) - first.value(points) - second.value(points)
    np.testing.assert_allclose(gap, gap[0], atol=1e-12)
    np.testing.assert_allclose(first.mirrored(-1).value(-points), first.value(points), atol=1e-12)
    with pytest.raises(ValueError, match="not symmetric"):
        Shortfall(np.zeros(2), np.zeros(2), np.array([[1.0, 2.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="score of a shortfall has shape"):
        Shortfall(np.zeros(2), np.zeros(3), np.eye(2))


@pytest.mark.parametrize("name", ["weight", "bought"])
def test_columns_of_the_coreset_get_an_underscore_where_data_have_their_names(name, tmp_path):
    for core, columns in (
        (
            make(design=Design((name, "b"))),
            [name, "b", *(["bought", "weight_"] if name == "weight" else ["bought_", "weight"])],
        ),
        (make(label="weight"), [*make().feature_names, "weight", "weight_"]),
    ):
        assert core.to_frame().columns.tolist() == columns
        core.save(tmp_path / "x.parquet")
        again = read_coreset(tmp_path / "x.parquet")
        assert again._file_digest == core._file_digest
        assert again.to_frame().equals(core.to_frame())


def rewritten(tmp_path, change):
    path = tmp_path / "core.parquet"
    make().save(path)
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    return path


def metadata(table, **changes):
    about = {**json.loads(table.schema.metadata[b"bayescore"]), **changes}
    return table.replace_schema_metadata({**table.schema.metadata, b"bayescore": json.dumps(about).encode()})


def column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


CHANGES = {
    "rows dropped": (
        lambda t: t.slice(1),
        "was changed after bayescore wrote it, or is damaged; build it again, or read .* all_rows",
    ),
    "a column dropped": (lambda t: t.drop_columns(["age"]), "was changed"),
    "a column added": (lambda t: t.append_column("new", pa.array(range(40))), "was changed"),
    "a column renamed": (
        lambda t: t.rename_columns({"age": "x"}).replace_schema_metadata(t.schema.metadata),
        "was changed",
    ),
    "the index lost": (
        lambda t: t.replace_schema_metadata({b"bayescore": t.schema.metadata[b"bayescore"]}),
        "was changed",
    ),
    "a newer format": (lambda t: metadata(t, format=4), "has coreset format 4; this version reads 2 and 3"),
    "a NaN": (lambda t: column(t, "age", np.where(np.arange(40) == 3, np.nan, 1.0)), "was changed"),
    "a weight of 0": (lambda t: column(t, "weight", np.arange(40.0)), "was changed"),
    "a third label": (lambda t: column(t, "bought", ["maybe"] * 40), "was changed"),
    "one weight": (
        lambda t: column(t, "weight", t["weight"].to_numpy() * np.where(np.arange(40) == 3, 1.01, 1.0)),
        "was changed",
    ),
    "two rows exchanged": (lambda t: t.take([1, 0, *range(2, 40)]), "was changed"),
    "another likelihood": (lambda t: metadata(t, family="probit"), "was changed"),
    "text for numbers": (lambda t: column(t, "age", ["x"] * 40), "was changed"),
    "no classes": (lambda t: metadata(t, classes=None), "was changed"),
    "no metadata": (lambda t: t.replace_schema_metadata(None), "is a Parquet file but no coreset"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_changed_and_foreign_files_are_refused(kind, tmp_path):
    change, message = CHANGES[kind]
    with pytest.raises(DataError, match=message):
        read_coreset(rewritten(tmp_path, change))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_coreset(tmp_path / "nowhere.parquet")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_coreset(tmp_path)
    path = tmp_path / "core.parquet"
    make().save(path)
    whole = path.read_bytes()
    for kept in (0, 100, len(whole) - 3):
        path.write_bytes(whole[:kept])
        with pytest.raises(DataError, match="not a readable Parquet file"):
            read_coreset(path)


def test_a_failed_write_leaves_the_old_file_and_no_partial_one(tmp_path, monkeypatch):
    path, old = tmp_path / "core.parquet", make(seed=1)
    old.save(path)

    def interrupted(error):
        def write(table, where):
            where.write_bytes(b"half a file")
            raise error

        return write

    for error in (OSError("No space left on device"), KeyboardInterrupt()):
        monkeypatch.setattr(pq, "write_table", interrupted(error))
        for target in (path, tmp_path / "new.parquet"):
            with pytest.raises(type(error)):
                make(seed=2).save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["core.parquet"]
    assert_same(read_coreset(path), old)


def test_unwritable_places_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*missing' does not exist; create it"):
        make().save(tmp_path / "missing" / "core.parquet")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        make().save(tmp_path)


def test_writing_again_replaces_the_file(tmp_path):
    path = tmp_path / "core.parquet"
    make(seed=1).save(path)
    make(seed=2).save(path)
    assert_same(read_coreset(path), make(seed=2))


def test_concat_puts_rows_and_totals_together():
    a, b = make(seed=1), make(n=7, seed=2, n_total=500, weight_total=0.5, method="uniform", params={"passes": 1})
    both = Coreset.concat([a, b])
    assert len(both) == 47
    np.testing.assert_array_equal(both.X, np.concatenate([a.X, b.X]))
    np.testing.assert_array_equal(both.weights, np.concatenate([a.weights, b.weights]))
    np.testing.assert_array_equal(both.index, np.concatenate([a.index, b.index]))
    assert (both.n_total, both.weight_total, both.method) == (1500, a.weight_total + 0.5, "union")
    assert both.params == {"parts": [a.params, b.params]}
    assert Coreset.concat([a]).method == "sensitivity"


def test_concat_remembers_weights_of_either():
    rng = np.random.default_rng(0)
    X, n = rng.normal(size=(200, 2)), rng.poisson(1.0, 200)
    told = {"family": "poisson", "progressbar": False}
    plain, weighted = bc.all_rows(X, n, **told), bc.all_rows(X, n, weights=np.full(200, 2.0), **told)
    for parts in ((plain, weighted), (weighted, plain)):
        assert Coreset.concat(parts).design.weighted
    assert not Coreset.concat([plain, plain]).design.weighted


def test_concat_refuses_coresets_that_differ(tmp_path):
    a = make()
    for name, other in (
        ("design", make(design=replace(DESIGN, intercept=False, raw_names=("i", "age", "a.b")))),
        ("design", make(design=replace(DESIGN, center=(0.0, 0.0)))),
        ("classes", make(classes=("no", "perhaps"))),
        ("label", make(label="sold")),
        ("family", make(family="probit")),
    ):
        with pytest.raises(ValueError, match=f"coresets differ in {name}: .*build them alike"):
            Coreset.concat([a, a, other])
    with pytest.raises(ValueError, match="coresets is empty"):
        Coreset.concat([])


def test_it_prints_what_it_is():
    core = make()
    text = repr(core)
    for part in ("sensitivity", "logistic", "40 of 1,000 (4.00%)", "3 with intercept", "radius", "0.3", "clusters"):
        assert part in text
    assert "bought: 'no' = -1, 'yes' = +1" in text
    assert str(2**63 + 1) in text
    assert "parts" not in text
    assert f"{core.weights.sum():,.6g}" in text
    assert core.weight_ess == pytest.approx(core.weights.sum() ** 2 / np.sum(core.weights**2))


def test_html_is_escaped():
    page = make(label="<script>", classes=("a&b", "<i>"), params={"<x>": "<b>"})._repr_html_()
    assert page.startswith("<table>")
    assert page.count("<tr>") == 10
    for raw in ("<script>", "<i>", "<b>", "<x>", "a&b"):
        assert raw not in page
    for escaped in ("&lt;script&gt;", "&lt;x&gt;", "a&amp;b"):
        assert escaped in page


def test_arrays_and_fields_are_read_only():
    core = make()
    for name in ("X", "y", "weights", "index"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(core, name)[0] = 1
    with pytest.raises(FrozenInstanceError):
        core.weights = np.ones(40)
    given = np.ones((2, 1))
    WeightedData(given, np.array([1, -1], dtype=np.int8), np.ones(2), np.arange(2))
    given[0] = 5.0  # the caller's own array stays writable


def bare(core):
    return WeightedData(core.X, core.y, core.weights, core.index)


def test_parts_and_signed_rows():
    core = make()
    np.testing.assert_array_equal(core.Z, core.X * core.y[:, None])
    some = core.take(core.y > 0)
    np.testing.assert_array_equal(some.index, core.index[core.y > 0])
    assert type(core.take(slice(2))) is type(core.with_weights(core.weights * 2)) is Coreset
    np.testing.assert_array_equal(core.with_weights(core.weights * 2.0).weights, 2.0 * core.weights)
    assert len(core) == 40
    assert core.n_features == 3


def test_names_and_likelihood_of_rows_that_know_none():
    core = make()
    assert feature_names(core) == core.feature_names == ("Intercept", "age", "a.b")
    assert feature_names(bare(core)) == ("beta_0", "beta_1", "beta_2")
    assert family_or_own(core, None) == "logistic"
    assert family_or_own(core, "probit") == "probit"
    with pytest.raises(ValueError, match="family is missing"):
        family_or_own(bare(core), None)


def test_design_puts_the_intercept_first_and_scales_the_rest():
    raw = np.array([[1.0, 5.0], [3.0, 7.0]])
    np.testing.assert_array_equal(Design(("a", "b")).transform(raw), raw)
    np.testing.assert_array_equal(Design(("a", "b"), intercept=True).transform(raw), [[1, 1, 5], [1, 3, 7]])
    full = Design(("a", "b"), True, (1.0, 6.0), (2.0, 0.5))
    np.testing.assert_array_equal(full.transform(raw), [[1, 0, -2], [1, 1, 2]])
    assert full.names == ("Intercept", "a", "b")
    assert Design.from_dict(json.loads(json.dumps(full.to_dict()))) == full
    assert Design.from_dict(Design(("a",)).to_dict()) == Design(("a",))
    assert Design(("a",)).is_identity
    assert not Design(("a",), True).is_identity
    assert not full.is_identity


@pytest.mark.parametrize("text", [b"[1, 2]", b"3", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\xff"])
def test_metadata_that_are_no_object_are_damaged(text, tmp_path):
    make().save(tmp_path / "core.parquet")
    table = pq.read_table(tmp_path / "core.parquet")
    pq.write_table(
        table.replace_schema_metadata({**table.schema.metadata, CORESET_KEY: text}), tmp_path / "other.parquet"
    )
    with pytest.raises(DataError, match=r"other.parquet' has damaged metadata; build the coreset again"):
        read_coreset(tmp_path / "other.parquet")
