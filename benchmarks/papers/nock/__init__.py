"""Nock, Canyasse, Boreli and Nielsen (2016), k-variates++: its tables, figures and theorems."""

from collections.abc import Callable

from benchmarks.papers.nock import bounds, peers, private, ratio, regime

COMMANDS: dict[str, Callable[..., None]] = {
    "nock_bounds": bounds.main,
    "nock_ratio": ratio.main,
    "nock_regime": regime.main,
    "nock_private": private.main,
    "nock_peers": peers.main,
}
