"""The result files of a run folder, read once for all sections."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, TypeVar

from qt_bert.files import sha256_file
from qt_bert.probes.wording import ClaimInWords, claims_in_words, plan_claim_in_words
from qt_bert.results.evaluation import EvaluationResult
from qt_bert.results.frontier import FRONTIER, Frontier
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ProbeResult, SourcedClaim
from qt_bert.run.folder import RunFolder, judged_together
from qt_bert.shipped import TEST, shipped, ships

Result = TypeVar("Result", Plan, Frontier)


class ClaimOf(NamedTuple):
    """A claim in words, and the section with its details."""

    worded: ClaimInWords
    anchor: str


def anchor_of(result: ProbeResult) -> str:
    """The anchor of a probe's section."""
    return f"probe-{result.probe}"


class Stored:
    """The result files in a run's `folder`, read when first needed; None or empty where missing.

    Raises RunFolderError for a damaged file when it is first read.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @cached_property
    def evaluation(self) -> EvaluationResult | None:
        """The evaluation of the model."""
        path = self.folder.file("evaluation.json")
        return EvaluationResult.read(path) if path.is_file() else None

    @cached_property
    def probes(self) -> tuple[ProbeResult, ...]:
        """The results of the finished probes, in the order of the report."""
        return self._judged[0]

    @cached_property
    def plan(self) -> Plan | None:
        """The plan under the report's budget."""
        return self._result("plan", "plan.json", Plan)

    @cached_property
    def frontier(self) -> Frontier | None:
        """The frontier of smaller shapes."""
        return self._result("frontier", FRONTIER, Frontier)

    def _result(self, name: str, file: str, kind: type[Result]) -> Result | None:
        stage, path = self.folder.record.stages.get(name), self.folder.file(f"plan/{file}")
        done = stage is not None and stage.status == "done" and path.is_file()
        return kind.read(path) if done else None

    @cached_property
    def claims(self) -> list[ClaimOf]:
        """The claims of probes and plan, in the order of the report; one family."""
        claims = [
            ClaimOf(claim, anchor_of(result))
            for result in self.probes
            for claim in claims_in_words(result)
        ]
        of_plan = self._judged[1]
        if of_plan is not None:
            evidence = self.plan.evidence if self.plan else None
            tests = [t for t in (evidence.tests if evidence else ()) if t.role == "validation"]
            changes = {name: metric.change for t in tests for name, metric in t.measured.items()}
            claims.append(ClaimOf(plan_claim_in_words(of_plan, changes), "plan"))
        return claims

    @cached_property
    def _judged(self) -> tuple[tuple[ProbeResult, ...], SourcedClaim | None]:
        return judged_together(self.folder)

    @cached_property
    def on_shipped(self) -> bool:
        """Whether the run's pairs are the test split that ships."""
        return ships(TEST) and self.folder.record.inputs.pairs.sha256 == sha256_file(shipped(TEST))
