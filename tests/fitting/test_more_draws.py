"""`fit` where the certificate asks for more draws: how many it takes, the most it takes, and errors of later tries."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level, Need, Remedy, slow_chains
from bayescore.families.family import FAMILIES
from bayescore.fitting import route
from bayescore.fitting.route import Length, first_affordable, most_draws, next_lengths, none_left
from bayescore.fitting.update import NewRows
from bayescore.limits import MAX_DRAWS
from bayescore.validation import DataError
from tests.fitting.printed import one_line

FIRST = Length(1000, 1000, 500)


def grouped(n=2000, levels=8):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": rng.integers(0, levels, n)})
    effect = rng.normal(0, 0.5, levels)
    return frame.assign(y=(frame["x"] + effect[frame["g"]] + rng.logistic(size=n) > 0).astype(int))


def asking(monkeypatch, *remedies, errors=()):
    """Make the certificates of the first tries ask for these; those of the tries in `errors` raise them instead."""
    left, raised, asked, weighed = list(remedies), dict(errors), [], []
    certified, sampled = route.Given.certify, route.sample_as_tree

    def certify(given, idata, core, max_draws):
        weighed.append(max_draws)
        if len(weighed) in raised:
            raise raised[len(weighed)]
        found = certified(given, idata, core, max_draws)
        return replace(found, level=Level.NOT_CERTIFIED, remedy=left.pop(0), idata=None) if left else found

    def sample(core, **options):
        asked.append(options["draws"])
        return sampled(core, **options)

    monkeypatch.setattr(route.Given, "certify", certify)
    monkeypatch.setattr(route, "sample_as_tree", sample)
    return asked, weighed


def test_draws_grow_with_those_that_are_weighed(monkeypatch):
    """The estimate from some draws holds for others as far apart: weighing their neighbours needed four tries."""
    asked, weighed = asking(monkeypatch, Remedy(Need.DRAWS, max_draws=1500))
    fit = bc.fit("y ~ x + (1 | g)", grouped(), random_state=1, progressbar=False)
    assert fit.level == "certified"
    assert asked == [1000, 4500]
    assert weighed == [500, 2300]
    assert [step.what for step in fit.story] == ["build", "sample", "certify", "sample", "certify"]


def test_a_certificate_that_asks_for_nothing_is_the_control(monkeypatch):
    asked, weighed = asking(monkeypatch)
    assert bc.fit("y ~ x + (1 | g)", grouped(), random_state=1, progressbar=False).level == "certified"
    assert (asked, weighed) == ([1000], [500])


def test_where_drawing_takes_too_long_all_draws_there_are_are_weighed():
    left = next_lengths(Remedy(Need.DRAWS, max_draws=1500), FIRST, 500, 4, 20_000)
    assert left == [Length(4500, 1000, 2300), Length(1000, 1000, 4000)]
    assert first_affordable(600.0, left, FIRST, 300.0) == (0.0, left[1])
    assert first_affordable(600.0, left, FIRST, 200.0) == (550.0, left[0])
    every = FIRST._replace(max_draws=4000)
    assert next_lengths(Remedy(Need.DRAWS, draws=1500), every, 4000, 4, 20_000) == [Length(1500, 1000, 6000)]


@pytest.mark.parametrize("asked", [25_900, 758_292, 10**9])
def test_no_more_draws_are_asked_for_than_can_be_drawn(asked):
    remedy = Remedy(Need.DRAWS, draws=asked)
    (capped,) = next_lengths(remedy, FIRST, 4000, 4, 20_000)
    assert capped == Length(20_000, 1000, 500)
    assert next_lengths(remedy, capped, 80_000, 4, 20_000) == []
    said = none_left(remedy, capped, 20_000)
    assert "asks for more draws, and fit takes at most 20,000" in said
    for text in (said, str(remedy), slow_chains()):  # no text names a number that fit does not take
        assert max(int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", text)) <= MAX_DRAWS
    assert next_lengths(replace(remedy, draws=1500), FIRST, 4000, 4, 20_000) == [Length(1500, 1000, 500)]


@pytest.mark.parametrize(("asked", "said"), [(9000, "more draws to weigh, and fit"), (4000, "no more than was done")])
def test_the_end_says_how_many_draws_would_have_to_be_weighed(asked, said):
    now, remedy = Length(1000, 1000, 4000), Remedy(Need.DRAWS, max_draws=asked)
    assert next_lengths(remedy, now, 4000, 4, 1000) == []
    assert said in none_left(remedy, now, 1000)


def test_the_most_draws_fit_in_memory(monkeypatch):
    core = bc.build_coreset(grouped(), formula="y ~ x + (1 + x | g)", random_state=1, progressbar=False)
    assert most_draws(core, 4, 1000) == 20_000
    monkeypatch.setattr(route, "MOST_BYTES", 8 * 4 * 18 * 5000)  # 2 coefficients and 16 effects
    assert most_draws(core, 4, 1000) == 5000
    assert most_draws(core, 4, 6000) == 6000  # those of the first try were drawn


def test_chains_that_hardly_move_end_with_the_last_certificate_and_its_advice(monkeypatch):
    monkeypatch.setattr(route, "MOST_DRAWS", 2000)
    asked, _ = asking(monkeypatch, *[Remedy(Need.DRAWS, draws=n) for n in (25_900, 758_292)])
    with pytest.warns(UserWarning, match="not certified"):
        fit = bc.fit("y ~ x", grouped(), random_state=1, progressbar=False)
    assert asked == [1000, 2000]
    assert fit.idata.posterior.sizes["draw"] == 2000
    assert fit.certificate.remedy.draws == 758_292
    assert fit.story[-1].what == "stop"
    assert "fit takes at most 2,000 a chain: chains that need more hardly move. Give a prior that says" in one_line(fit)
    assert "758" not in repr(fit)


def test_where_chains_of_groups_hardly_move_fit_takes_nuts(monkeypatch):
    """No draws are taken that would not do; the story says so, and the certificate judges the draws of NUTS."""
    samplers, drawn = [], route.sample_as_tree
    asking(monkeypatch, Remedy(Need.DRAWS, draws=25_900))

    def sample(core, *, sampler, nuts_sampler=None, **options):
        samplers.append((sampler, len(core)))
        return drawn(core, **options)  # by the default sampler, as NUTS takes a minute to compile

    monkeypatch.setattr(route, "sample_as_tree", sample)
    fit = bc.fit("y ~ x + (1 + x | g)", grouped(), random_state=1, progressbar=False)
    assert [name for name, _ in samplers] == ["auto", "nuts"]
    assert samplers[1][1] == 2000  # all rows, as they are few
    assert fit.level == "certified"
    assert any("NUTS, as 'joint' would take more than 20,000 draws a chain" in step.why for step in fit.story)


def test_nuts_after_an_update_takes_the_coreset_of_all_rows(monkeypatch):
    """Earlier rows are gone: the new ones alone were sampled, and certified as if they were all."""
    rows, drawn, certified = grouped(), route.sample_as_tree, NewRows.certify
    before = bc.fit("y ~ x + (1 | g)", rows[:1700], random_state=1, progressbar=False)
    samplers = []

    def sample(core, *, sampler, nuts_sampler=None, **options):
        samplers.append((sampler, core.n_total))
        return drawn(core, **options)  # by the default sampler, as NUTS takes a minute to compile

    def certify(self, *arguments):
        found = certified(self, *arguments)
        remedy = Remedy(Need.DRAWS, draws=10**9)
        return found if len(samplers) > 1 else replace(found, level=Level.NOT_CERTIFIED, remedy=remedy, idata=None)

    monkeypatch.setattr(route, "sample_as_tree", sample)
    monkeypatch.setattr(NewRows, "certify", certify)
    fit = before.update(rows[1700:], progressbar=False)
    assert samplers == [("auto", 2000), ("nuts", 2000)]
    assert fit.coreset.n_total == 2000


@pytest.mark.parametrize(("n", "timed"), [(2000, 2000), (10, 10), (10**7, 2**17 // 3)])
def test_the_time_of_n_rows_goes_by_a_gradient_of_as_many_or_of_large_numbers(monkeypatch, rows, n, timed):
    """A gradient of the 60 rows of a coreset is mostly its call: 2,000 were said to take thirty times what they do."""
    seen, made = [], route.posterior
    monkeypatch.setattr(route, "posterior", lambda part, *rest: seen.append(len(part)) or made(part, *rest))
    assert route.seconds_of(rows, n, FAMILIES["logistic"], 1000, 4) > 0.0
    assert seen == [timed]


LATER = {
    "of sampling": DataError("draws of 177 effects take 6,566,388,480 bytes"),
    "of memory": MemoryError("Unable to allocate 9 GiB"),
    "of arithmetic": FloatingPointError("overflow"),
}


@pytest.mark.parametrize("what", LATER)
def test_an_error_of_a_later_try_loses_that_try_alone(monkeypatch, what):
    asked, _ = asking(monkeypatch, Remedy(Need.DRAWS, draws=1500), errors={2: LATER[what]})
    with pytest.warns(UserWarning, match="not certified"):
        fit = bc.fit("y ~ x", grouped(), random_state=1, progressbar=False)
    assert asked == [1000, 1500]
    assert fit.idata.posterior.sizes["draw"] == 1000
    assert fit.certificate.remedy.draws == 1500
    assert re.search(
        f"the next try failed, and draws and certificate are those before it: {LATER[what]}", one_line(fit)
    )


def test_an_error_of_the_first_try_is_raised_and_so_is_one_that_no_data_explain(monkeypatch):
    def fails(core, **_):
        raise DataError("draws of 177 effects")

    asking(monkeypatch, Remedy(Need.DRAWS, draws=1500), errors={2: KeyError("a slip")})
    with pytest.raises(KeyError, match="a slip"):
        bc.fit("y ~ x", grouped(), random_state=1, progressbar=False)
    monkeypatch.setattr(route, "sample_as_tree", fails)
    with pytest.raises(DataError, match="177 effects"):
        bc.fit("y ~ x", grouped(), random_state=1, progressbar=False)
