"""Running a probe, its measurements and claims by id; what another probe left."""

from collections.abc import Sequence

from qt_bert.probes.base import Context, probe_named, run_probe
from qt_bert.results.probe import Measurement, ModelRef, PairsRef, ProbeResult, SourcedClaim
from qt_bert.text import Text


def result_of(name: str, context: Context) -> ProbeResult:
    """The probe's result, written and read again."""
    found = run_probe(probe_named(name), context)
    path = context.work.parent / f"{name}.json"
    found.write(path)
    assert ProbeResult.read(path) == found
    return found


def measured(result: ProbeResult) -> dict[str, Measurement]:
    """The measurements by id."""
    return {one.id: one for one in result.measurements}


def values(result: ProbeResult) -> dict[str, float | None]:
    """The measured values by id."""
    return {one.id: one.value for one in result.measurements}


def claim(result: ProbeResult) -> SourcedClaim:
    """The one claim of a probe that has one."""
    (found,) = result.claims
    return found


def reasons(result: ProbeResult) -> set[str]:
    """The reasons of all claims."""
    return {one.reason for one in result.claims}


def left(probe: str, *, read: bool = True, **sets: Sequence[str]) -> ProbeResult:
    """What another probe left, as far as a probe that needs it reads it."""
    return ProbeResult(
        probe=probe,
        model=ModelRef(name="m", sha256=""),
        pairs=PairsRef(name="p", sha256=""),
        settings={},
        facts={"read": read},
        summary=Text("", ""),
        sets={name: tuple(heads) for name, heads in sets.items()},
    )
