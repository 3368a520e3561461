"""Several factors and slopes that vary, condensed by cell: the log-likelihood of all rows; with a negative control."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.coresets import cells as cells_of_rows
from bayescore.coresets import multilevel as rooms
from bayescore.coresets.cell_centre import CellNodes, find_centre
from bayescore.coresets.cell_rows import directions_of
from bayescore.coresets.cells import CellPosterior, Cells, sums_of, sums_of_rows
from bayescore.coresets.multilevel import mode_without_effects
from bayescore.data.design import Design
from bayescore.data.open import open_designed
from bayescore.families.family import check_family
from bayescore.priors import Normal
from bayescore.types import NO_GROUP, WeightedData
from bayescore.validation import DataError
from tests.coresets.celled import SLOPES, TWO, celled

LINKS = ("logistic", "probit")
PRIOR = Normal(0.0, 4.0)
N_POINTS = 400


def condensed(frame, formula, family):
    dataset = open_designed(frame, formula=formula)
    dataset.scan  # noqa: B018 - as builders begin
    rows, info, *_ = rooms.condense(dataset, PRIOR, check_family(family))
    return dataset, rows, info


def density(dataset, family):
    cells, columns = Cells.of(dataset), rooms.varying_columns(dataset.design)
    beta, prior = mode_without_effects(dataset, check_family(family), PRIOR), 0.25 * np.eye(len(columns))
    seen, start = cells.coded_by_cell(dataset), CellPosterior.start(beta, prior, len(cells), columns)
    rows = seen.load()
    found, _ = find_centre(
        seen,
        start,
        check_family(family),
        (PRIOR, np.ones(len(columns))),
        lambda centre: (centre.points.integrated(centre.shares, rows), None),
    )
    return cells, seen, found.points.at


def response(dataset, rows, family):
    """Return by how many sds means of beta and effects differ to first order, 99% of effects, and the sd of the ratio.

    The covariance of r, the log-likelihood of all rows less the coreset's, and the coefficients over points about the
    posterior: what weights e^r change in means.
    """
    cells, seen, at = density(dataset, family)
    family, full = check_family(family), seen.load()
    places = {tuple(code): c for c, code in enumerate(cells.codes.tolist())}
    own = np.array([places.get(tuple(code), -1) for code in rows.group.tolist()])
    rng, L = np.random.default_rng(1), np.zeros_like(at.variance)
    L[:-1] = np.linalg.cholesky(at.variance[:-1])
    ratio, points = [], []
    for _ in range(N_POINTS // 2):
        move, noise = at.factor @ rng.standard_normal(len(at.beta)), rng.standard_normal(at.mean.shape)
        for sign in (1.0, -1.0):
            beta = at.beta + sign * move
            b = at.mean - sign * (at.slope @ move - np.einsum("cqr,cr->cq", L, noise))
            values = []
            for each, codes in ((full, full.group[:, 0]), (rows, own)):
                eta = each.X @ beta + (each.X[:, at.columns] * b[codes]).sum(axis=1)
                eta = eta if each.offset is None else eta + each.offset
                values.append(each.weights @ family.log_p(eta, each.y))
            ratio.append(values[0] - values[1])
            points.append(np.append(beta, b[:-1]))
    r, points = np.array(ratio) - np.mean(ratio), np.array(points)
    error = np.abs(r @ points / len(r)) / points.std(axis=0)
    return error[: len(at.beta)].max(), np.quantile(error[len(at.beta) :], 0.99), r.std()


@pytest.mark.parametrize("family", LINKS)
@pytest.mark.parametrize(
    ("terms", "shape"),
    [
        (TWO, {"nested": False, "median": 60, "n_a": 8, "n_b": 8}),
        (TWO, {"nested": True, "median": 8, "n_a": 12, "n_b": 10, "intercept": -2.0}),
        (SLOPES, {"nested": True, "median": 40, "n_a": 30, "n_b": 2, "slope": 0.5}),
        (f"{SLOPES} + (1 | b)", {"nested": True, "median": 25, "n_a": 15, "n_b": 5, "slope": 0.5}),
    ],
)
def test_the_log_likelihood_is_that_of_all_rows(family, terms, shape):
    """Means of beta within 0.03 sd, of 99% of effects 0.04 sd; noise of one is sd(r) / 20, at most 0.02."""
    frame = celled(family=family, **shape)
    dataset, rows, facts = condensed(frame, f"y ~ w + x + z + {terms}", family)
    beta, effects, spread = response(dataset, rows, family)
    assert spread < 0.35
    assert beta < 0.03
    assert effects < 0.04
    assert facts.mode_error < 0.01
    assert facts.merged_cells + facts.kept_small + facts.kept_shape == facts.cells
    assert facts.shape_error < rooms.SHAPE
    assert len(rows) < 0.8 * len(frame)
    assert len(rows) <= 2 * facts.pseudo_rows + facts.kept_rows
    no_cell = (rows.group == -1).all(axis=1)
    assert (rows.index[no_cell] == -1).all()
    assert (no_cell == (rows.group == -1).any(axis=1)).all()


def test_without_averages_it_is_off(monkeypatch):
    """The negative control: derivatives at the centre of the density, not averaged over it."""
    frame = celled(nested=True, median=8, n_a=12, n_b=10, intercept=-2.0)
    formula = f"y ~ w + x + z + {TWO}"
    dataset, rows, _ = condensed(frame, formula, "logistic")
    good = response(dataset, rows, "logistic")
    with monkeypatch.context() as patch:
        patch.setattr(cells_of_rows, "_variances_of_beta", lambda gap, *_: np.zeros(len(gap)))
        patch.setattr(cells_of_rows, "_add_variances", lambda *_: None)
        patch.setattr(rooms, "SHAPE", np.inf)
        _, control, _ = condensed(frame, formula, "logistic")
    assert response(dataset, control, "logistic")[2] > 3.0 * good[2]


@pytest.mark.parametrize("family", LINKS)
def test_pseudo_rows_give_effects_the_moments_of_all_rows(family):
    """Mean and variance of each cell's effects, by quadrature; gradient and curvature of beta, these integrated out."""
    frame = celled(family=family, nested=True, median=40, n_a=10, n_b=2, slope=0.5)
    dataset, rows, _ = condensed(frame, f"y ~ w + x + z + {SLOPES}", family)
    cells, seen, at = density(dataset, family)
    assert (cells.codes[:, 0] == np.arange(10)).all()  # of one factor a cell is a level
    points = CellNodes.of(at, check_family(family))
    (full, values), own = points.look(seen), sums_of_rows(rows, at, points.family)
    shares, own_shares = points.shares(values), points.shares(points.values_of(rows))
    (mean, precision), (own_mean, own_precision) = points.moments(shares), points.moments(own_shares)
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2))
    assert np.abs((own_mean - mean) / sd)[:-1].max() < 1e-3
    assert np.abs(np.linalg.solve(precision, own_precision) - np.eye(2))[:-1].max() < 3e-3
    integrated, of_rows = points.integrated(shares, seen.load()), points.integrated(own_shares, rows)
    np.testing.assert_allclose(own.gradient + of_rows.score, full.gradient + integrated.score, atol=2e-3)
    curvature = full.precision + integrated.information
    np.testing.assert_allclose(own.precision + of_rows.information, curvature, rtol=1e-3, atol=0.02)
    np.testing.assert_allclose(own.cross, full.cross, rtol=1e-2, atol=0.02)


def marginal(rows, family, beta, sigma):
    """Return the log-likelihood with the effects of one factor integrated out, by a grid of each effect."""
    b, family = np.linspace(-8.0 * sigma, 8.0 * sigma, 1201), check_family(family)
    eta = rows.X @ beta + (0.0 if rows.offset is None else rows.offset)
    group = rows.group[:, 0]
    each = eta[:, None] + np.where(group < 0, 0.0, 1.0)[:, None] * b
    log_p = family.log_p(each.ravel(), np.repeat(rows.y, len(b))).reshape(each.shape) * rows.weights[:, None]
    by_group = np.zeros((group.max() + 1, len(b)))
    np.add.at(by_group, group[group >= 0], log_p[group >= 0])
    by_group -= 0.5 * (b / sigma) ** 2
    top = by_group.max(axis=1)
    return float((top + np.log(np.exp(by_group - top[:, None]).sum(axis=1))).sum() + log_p[group < 0, 0].sum())


def test_few_rows_with_a_large_sd_say_of_beta_what_they_say_with_effects_integrated_out(monkeypatch):
    """Curvature along a column within groups, most of one label. The control averages it over normal effects."""
    rng = np.random.default_rng(0)
    group, month = np.repeat(np.arange(150), 7), np.tile([0.0, 1.0, 2.0, 3.0, 6.0, 9.0, 12.0], 150)
    eta = -1.7 - 0.4 * month + 4.0 * rng.normal(size=150)[group]
    frame = pd.DataFrame({"month": month, "g": group, "y": (eta + rng.logistic(size=len(eta)) > 0).astype(int)})

    def curvature(rows):
        values = [marginal(rows, "logistic", np.array([-1.7, -0.4 + move]), 4.0) for move in (-0.03, 0.0, 0.03)]
        return (2.0 * values[1] - values[0] - values[2]) / 0.03**2

    dataset, rows, _ = condensed(frame, "y ~ month + (1 | g)", "logistic")
    full = curvature(dataset.load())
    assert len(rows) < 0.7 * len(frame)
    assert abs(curvature(rows) / full - 1.0) < 0.04
    whole = CellNodes.total
    flat = lambda self, parts: whole(self, parts)._replace(information=np.zeros((2, 2)))  # noqa: E731
    monkeypatch.setattr(CellNodes, "total", flat)
    assert curvature(condensed(frame, "y ~ month + (1 | g)", "logistic")[1]) / full > 1.06


def test_directions_are_dual_and_find_two_values_of_a_column():
    """Of a 0/1 column pseudo-rows stand at 0 and at 1, the two kinds of rows that there are."""
    frame = celled(nested=True, median=60, n_a=10, n_b=2).assign(x=lambda own: (own.x > 0).astype(float))
    dataset = open_designed(frame, formula=f"y ~ w + x + z + {SLOPES}")
    dataset.scan  # noqa: B018
    cells, seen, at = density(dataset, "logistic")
    along = directions_of(sums_of(seen, at, check_family("logistic")), at)
    np.testing.assert_allclose(
        np.einsum("ckq,cjq->ckj", along.u[:-1], along.v[:-1]), np.tile(np.eye(2), (len(cells), 1, 1)), atol=1e-8
    )
    slope = np.sort(along.v[:-1, :, 1] / along.v[:-1, :, 0], axis=1)
    assert np.abs(slope - [0.0, 1.0]).max() < 0.05


@pytest.mark.parametrize("terms", [TWO, SLOPES])
def test_build_files_and_sources_give_the_same_bits(tmp_path, terms):
    frame = celled(nested=False, median=60, n_a=6, n_b=5)
    told = {"formula": f"y ~ w + x + z + {terms}", "method": "multilevel", "random_state": 0, "progressbar": False}
    core = bc.build_coreset(frame, **told)
    assert core.method == "multilevel"
    assert core.params["cells"] == (30 if terms == TWO else 6)
    assert (core.index == -1).any()
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    again = bc.build_coreset(tmp_path / "rows.parquet", **told)
    assert again.rows_digest == core.rows_digest
    core.save(tmp_path / "core.parquet")
    read = bc.read_coreset(tmp_path / "core.parquet")
    assert read.rows_digest == core.rows_digest
    assert read.params == core.params
    assert read.groups == core.groups
    assert bc.build_coreset(frame, **{**told, "method": "auto"}).rows_digest == core.rows_digest


def test_cells_of_few_rows_keep_all_and_say_so():
    rng = np.random.default_rng(0)
    pairs = np.array(list(product(range(30), range(20))))
    frame = pd.DataFrame({"a": pairs[:, 0], "b": pairs[:, 1], "x": rng.normal(size=600), "y": rng.integers(0, 2, 600)})
    with pytest.warns(UserWarning, match="at least 600 of 600 rows: all rows are kept"):
        core = bc.build_coreset(frame, formula="y ~ x + (1 | a) + (1 | b)", method="multilevel", progressbar=False)
    assert len(core) == 600
    assert (core.index >= 0).all()
    assert core.params["kept_rows"] == 600
    assert core.params["merged_cells"] == 0


def test_bad_input_is_refused_before_work():
    frame = celled(nested=False, median=5, n_a=4, n_b=4)
    told = {"method": "multilevel", "progressbar": False}
    with pytest.raises(DataError, match=r"about a mean that is no column: give intercept=True, or leave \+ 0"):
        bc.build_coreset(frame, formula="y ~ w + x + 0 + (1 + x | a)", **told)
    with pytest.raises(DataError, match=r"4 coefficients vary by group \(1, w, x, z\).* at most 3"):
        bc.build_coreset(frame, formula="y ~ w + x + z + (1 + w + x + z | a)", **told)
    with pytest.raises(DataError, match="one level"):
        bc.build_coreset(frame.assign(b=1), formula="y ~ x + (1 | a) + (1 | b)", **told)


@pytest.mark.parametrize("term", ["1 + v", "0 + v", "1 + x + v"])
def test_slopes_of_a_column_that_is_constant_within_groups_are_refused_in_the_first_pass(tmp_path, term):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 6, 400), "x": rng.normal(size=400)}).assign(v=lambda rows: rows.a * 0.5)
    frame["y"] = rng.random(400) < 0.5
    told = {"formula": f"y ~ x + v + ({term} | a)", "progressbar": False}
    frame.to_parquet(tmp_path / "rows.parquet")
    said = r"'v' is constant within .* only the sum .* is identified; leave the slope out, \((1|1 \+ x) \| a\)"
    for data in (frame, tmp_path / "rows.parquet"):
        for verb in (bc.build_coreset, bc.all_rows):
            with pytest.raises(DataError, match=said):
                verb(data, **told)
    with pytest.raises(DataError, match="'v' is constant within every level of 'a'"):
        bc.fit(told["formula"], frame, progressbar=False)
    frame.loc[399, "v"] += 0.1  # one group has values of two kinds
    known = bc.all_rows(frame, **told)
    own = bc.all_rows(frame.drop_duplicates("a"), design=known.design, progressbar=False)  # may have one row a group
    assert len(own) == 6


@pytest.mark.filterwarnings("ignore:every one of the .* levels of:UserWarning")
@pytest.mark.filterwarnings("ignore:the posterior's centre was not reached:UserWarning")
@pytest.mark.filterwarnings("ignore:the mean of the coreset's coefficients:UserWarning")
@pytest.mark.parametrize("terms", ["(1 | g)", "(1 + x | g)", "(1 | g) + (1 | h)"])
def test_groups_of_one_label_each_end_in_a_coreset(terms):
    """Their likelihood does not fall as the sd of effects grows: steps went to infinity, and builds to errors."""
    rng, g = np.random.default_rng(0), np.repeat(np.arange(20), 100)
    rows = pd.DataFrame({"x": rng.normal(size=2000), "g": g, "h": rng.integers(0, 10, 2000), "y": g % 2})
    core = bc.build_coreset(rows, formula=f"y ~ x + {terms}", random_state=0, progressbar=False)
    assert len(core) < 0.3 * len(rows)
    assert np.isfinite(core.X).all()
    assert max(core.params["effect_sds"]) <= 15.0 + 1e-9


def test_sds_of_slopes_are_held_in_units_of_their_column():
    rng, g = np.random.default_rng(0), np.repeat(np.arange(30), 300)
    x, y = rng.normal(size=9000), rng.random(9000)
    y = y < 1.0 / (1.0 + np.exp(-(rng.normal(size=30)[g] + rng.normal(size=30)[g] * x)))
    rows = pd.DataFrame({"x": 0.01 * x, "g": g, "y": y})
    core = bc.build_coreset(rows, formula="y ~ x + (1 + x | g)", random_state=0, progressbar=False)
    assert 50.0 < core.params["effect_sds"][1] < 200.0


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (1, 2, 3)])
def test_cells_by_a_table_are_those_of_a_search(sizes, monkeypatch):
    """Also of rows of no group, which pseudo-rows of a stream may be of."""
    codes = np.array(list(product(*map(range, sizes))))[::2]
    rows = np.vstack([codes, np.full(len(sizes), NO_GROUP)])
    block = WeightedData(
        np.ones((len(rows), 1)), np.ones(len(rows)), np.ones(len(rows)), np.arange(len(rows)), group=rows
    )

    def cells():
        design = cells_of_rows.CellDesign(
            ("a",), base=Design(("a",)), keys=cells_of_rows.key_of(codes, sizes), sizes=sizes
        )
        return design.rows(block).group[:, 0].tolist()

    assert cells() == [*range(len(codes)), NO_GROUP]
    monkeypatch.setattr(cells_of_rows, "_KEYS_PER_CELL", 0)
    assert cells() == [*range(len(codes)), NO_GROUP]
