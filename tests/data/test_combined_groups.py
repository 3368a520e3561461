"""Groups that are combinations of columns, a:b and a/b, are those of a column that has them, from every source."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.formula_parsing import GroupTerm, parsed
from bayescore.validation import DataError
from tests.data.test_groups import assert_same, kinds

QUIET = {"random_state": 0, "progressbar": False}
N = 3000
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame({"x": RNG.normal(size=N), "school": RNG.integers(1, 13, N), "room": RNG.choice(list("abc"), N)})
SHIFT = RNG.normal(0.0, 0.7, 13)[FRAME["school"]]
FRAME["y"] = (RNG.random(N) < 1.0 / (1.0 + np.exp(-FRAME["x"] - SHIFT))).astype(int)
ROOM = FRAME["school"].astype(str) + ":" + FRAME["room"]
BY_COLUMN = FRAME.assign(school_room=ROOM)
JOINED = "y ~ x + (1 | school:room)"
NESTED, CROSSED = "y ~ x + (1 | school/room)", "y ~ x + (1 | school) + (1 | school_room)"


@pytest.fixture(scope="module")
def fit():
    return bc.fit(NESTED, FRAME, **QUIET)


@pytest.mark.parametrize(
    ("term", "columns"),
    [
        ("(1 | a:b)", ["a:b"]),
        ("(1 + x | `my g` / b)", ["my g", "my g:b"]),
        ("(1 | a / b:c / d)", ["a", "a:b:c", "a:b:c:d"]),
        ("(1 | `a:b`)", ["a:b"]),
        ("(1 | `a/b` / `c d`)", ["a/b", "a/b:c d"]),
    ],
)
def test_a_slash_stands_for_each_level_within_those_before(term, columns):
    effects = ("1", "x") if "x" in term else ("1",)
    assert parsed(f"y ~ x + {term}").groups == tuple(GroupTerm(column, (effects,)) for column in columns)


@pytest.mark.parametrize("right", ["", "a:a", "a + b", "a*b", "f(a)", "a:", "/a"])
def test_what_names_no_groups_is_an_error(right):
    with pytest.raises(DataError, match=r"needs a column right of its bar, .* joined by : or /"):
        parsed(f"y ~ x + (1 | {right})")


def test_the_same_effect_in_two_terms_of_a_factor_is_an_error():
    with pytest.raises(DataError, match=r"the intercept varies by 'a:b' in two group terms.*leave \(1 \| a:b\) out"):
        parsed("y ~ x + (1 | a/b) + (1 | a:b)")


def test_groups_are_those_of_a_column_of_combinations(tmp_path):
    expected = bc.build_coreset(BY_COLUMN, formula=CROSSED, method="aggregate", **QUIET)
    for kind, data in {"pandas": FRAME, **kinds(FRAME, tmp_path)}.items():
        found = bc.build_coreset(data, formula=NESTED, method="aggregate", **QUIET)
        assert [own.name for own in found.groups] == ["school", "school:room"]
        assert found.groups[1].levels == expected.groups[1].levels, kind
        for name in ("X", "y", "weights", "index", "group"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=f"{kind}: {name}")


def test_a_part_may_be_a_feature_too_in_frames_and_blocks():
    formula = "y ~ x + room + (1 | school:room)"
    found = bc.build_coreset(FRAME, formula=formula, **QUIET)
    X, y = FRAME.drop(columns="y"), FRAME["y"]
    halves = [slice(0, 1000), slice(1000, N)]
    assert_same(bc.build_coreset(lambda: ((X[c], y[c]) for c in halves), formula=formula, **QUIET), found, "blocks")
    expected = bc.build_coreset(BY_COLUMN, formula="y ~ x + room + (1 | school_room)", **QUIET)
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_groups_of_streams():
    stream = bc.stream("multilevel", formula=NESTED, random_state=0)
    for c in (slice(0, 1500), slice(1500, N)):
        stream.partial_fit(FRAME[c])
    assert [len(own) for own in stream.coreset().groups] == [12, 36]


@pytest.mark.slow
def test_draws_are_those_of_a_column_and_predictions_too(fit):
    other = bc.fit(CROSSED, BY_COLUMN, **QUIET)
    for name, own in (("coef", "coef"), ("u_school:room", "u_school_room"), ("sigma_school:room", "sigma_school_room")):
        np.testing.assert_array_equal(fit.idata.posterior[name], other.idata.posterior[own])
    new = pd.DataFrame({"x": 0.5, "school": [1, 1, 99], "room": ["a", "z", "a"]})
    by_column = new.assign(school_room=new["school"].astype(str) + ":" + new["room"])
    assert fit.predict(new).equals(other.predict(by_column))
    cells = FRAME.assign(n=1)
    found = fit.poststratify(cells, weights="n", by="school")
    assert found.equals(other.poststratify(cells.assign(school_room=ROOM), weights="n", by="school"))
    assert len(fit.average_predictions(by="school:room")) == 36
    assert len(fit.poststratify(cells, weights="n", by="school:room")) == 36
    with pytest.raises(DataError, match="X has no column 'room' with the group of each row"):
        fit.predict(new[["x", "school"]])
    with pytest.raises(DataError, match="cells has no column 'room'"):
        fit.poststratify(cells.drop(columns="room"), weights="n", by="school")


def test_a_fit_with_levels_of_two_types_is_saved_and_read(fit, tmp_path):
    fit.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", FRAME, progressbar=False)
    pd.testing.assert_frame_equal(again.certificate.effects, fit.certificate.effects)
    assert again.effects("school:room").equals(fit.effects("school:room"))


def test_a_missing_part_makes_a_missing_group():
    holes = FRAME.assign(room=FRAME["room"].where(np.arange(N) % 10 > 0))
    with pytest.raises(DataError, match=r"groups \(columns 'school' and 'room'\) is missing in 300 of rows"):
        bc.all_rows(holes, label="y", groups="school:room", progressbar=False)
    with pytest.warns(UserWarning, match=r"left out 300 of 3,000 rows, that miss 'school:room' \(300\)"):
        core = bc.all_rows(holes, label="y", groups="school:room", missing="drop", progressbar=False)
    assert (np.array(core.groups[0].levels)[core.group[:, 0]] == ROOM[core.index]).all()
    assert core.feature_names == ("x",)  # what makes the groups is no feature


@pytest.mark.parametrize(
    ("formula", "frame", "message"),
    [
        (
            "y ~ x + (1 | school/hall)",
            FRAME,
            r"'school:hall' takes 'hall', not a column of the data; the columns are x, ",
        ),
        ("y ~ x + (1 | school:y)", FRAME, "groups take the column 'y', which is the label"),
        (
            "y ~ x + (1 | room:school)",
            FRAME.assign(room="a:b"),
            "'room' has the level 'a:b'; of columns that are joined only the last may",
        ),
        ("y ~ x + (1 | `a:b`:school)", FRAME, "column 'a:b' has a colon in its name, and is joined; rename it"),
        ("y ~ x + (1 | school:x)", FRAME, r"groups \(column 'x'\) holds numbers that are not whole"),
    ],
)
def test_what_cannot_be_combined_is_an_error(formula, frame, message):
    with pytest.raises(DataError, match=message):
        bc.build_coreset(frame, formula=formula, **QUIET)


def test_a_colon_in_the_last_column_and_a_column_of_that_name_are_taken():
    core = bc.all_rows(FRAME.assign(room="a:b"), label="y", groups="school:room", progressbar=False)
    assert core.groups[0].levels[0] == "10:a:b"
    named = FRAME.assign(**{"school:room": FRAME["room"]})[["x", "y", "school:room"]]
    assert bc.all_rows(named, label="y", groups="school:room", progressbar=False).groups[0].levels == ("a", "b", "c")
    (own,) = bc.all_rows(named, label="y", groups="school:room", progressbar=False).groups
    assert own.parts == ()


def test_a_part_of_another_type_is_an_error():
    fit = bc.fit(JOINED, FRAME, **QUIET)
    text = FRAME.assign(school=FRAME["school"].map("{:02d}".format))
    message = "column 'school' holds text, and held numbers in other rows; convert it"
    with pytest.raises(DataError, match=message):
        fit.predict(text.head())
    with pytest.raises(DataError, match=message):
        fit.poststratify(text.assign(n=1), weights="n")
    stream = bc.stream("multilevel", formula=JOINED, random_state=0)
    stream.partial_fit(FRAME)
    with pytest.raises(DataError, match=message):
        stream.partial_fit(text)
    with pytest.raises(DataError, match=message):
        bc.all_rows(
            lambda: iter([(text, text["y"]), (FRAME, FRAME["y"])][::-1]), groups="school:room", progressbar=False
        )
    assert fit.predict(FRAME.head().astype({"school": float})).equals(fit.predict(FRAME.head()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the draws are not certified")  # three rooms leave their sd wide
def test_a_fit_knows_whether_its_groups_were_joined():
    rows = FRAME[["x", "y"]].assign(**{"school:room": FRAME["room"]})
    fit = bc.fit("y ~ x + (1 | `school:room`)", rows, **QUIET)
    with pytest.raises(DataError, match="X has no column 'school:room'"):
        fit.predict(FRAME.head())
    joined = bc.fit(JOINED, FRAME, **QUIET)
    assert joined.predict(FRAME.head().assign(**{"school:room": "other"})).equals(joined.predict(FRAME.head()))


def test_categories_that_no_row_has_do_not_matter():
    many = pd.CategoricalDtype([f"{k:,}:" for k in range(70_000)] + list("abc"))
    frame = FRAME.assign(room=FRAME["room"].astype(many), a=FRAME["room"].astype(many), b=FRAME["room"].astype(many))
    found = bc.all_rows(frame, label="y", groups="room:a:b:school", progressbar=False)
    assert len(found.groups[0]) == 36
    assert found.groups[0].levels[0] == "a:a:a:1"


def test_a_part_that_has_another_role_must_be_numbers():
    with pytest.raises(DataError, match="columns are not numeric: 'room'"):
        bc.build_coreset(FRAME, formula="y ~ x + (1 | school:room)", weights="room", **QUIET)
    with pytest.raises(DataError, match="groups='school:school' names a column twice"):
        bc.build_coreset(FRAME, label="y", groups="school:school", **QUIET)


def test_a_fit_of_joined_groups_is_checked_against_its_rows(fit):
    assert fit.check(FRAME).equals(fit.check())
    other = bc.fit(CROSSED, BY_COLUMN, **QUIET)
    found, by_column = (
        own.inference_data(frame, max_draws=20, random_state=3)["posterior_predictive"]["y"]
        for own, frame in ((fit, FRAME), (other, BY_COLUMN))
    )
    np.testing.assert_array_equal(found, by_column)
