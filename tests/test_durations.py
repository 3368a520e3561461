import pytest

from tests import durations


def unmarked(items: list[pytest.Item], recorded: dict[str, float]) -> list[str]:
    """Return the quick tests that take long by the record, or need a fixture that does."""
    quick = [item for item in items if durations.tier(item) == "quick" and not item.get_closest_marker("essential")]
    found = {part: recorded[part] for item in quick for part in durations.parts(item) if part in recorded}
    return [f"{part}: {seconds} s" for part, seconds in found.items() if seconds > durations.SLOW]


@pytest.fixture(scope="module")
def made_once() -> int:
    return 1


def test_what_takes_long_is_slow_or_essential(request: pytest.FixtureRequest, made_once: int) -> None:
    known = durations.load()["tests"]
    assert not (found := unmarked(request.session.items, known)), found
    fixture = f"{request.node.nodeid.partition('::')[0]}::made_once (fixture)"
    for part in (request.node.nodeid, fixture):  # negative controls
        assert unmarked([request.node], {part: durations.SLOW + 0.1}) == [f"{part}: {durations.SLOW + 0.1} s"]
        assert not unmarked([request.node], {part: durations.SLOW})


def test_essential_tests_say_what_they_alone_see(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        if marker := item.get_closest_marker("essential"):
            assert len(marker.args) == 1, item.nodeid
