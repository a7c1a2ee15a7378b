"""That what a probe says of its figures holds: they are there, and so are the sets that they show."""

from __future__ import annotations

from qt_bert.probes.registry import probe_named
from qt_bert.results.probe import ProbeResult


def check_shown(result: ProbeResult) -> None:
    """For a result that has every figure of `Probe.shows`."""
    shows = probe_named(result.probe).shows
    assert set(shows) <= {figure.name for figure in result.figures}
    assert {name for names in shows.values() for name in names or ()} <= set(result.sets)
