"""What the article supposes of pretraining: which objective brings boundaries, and which matching."""

from __future__ import annotations

import numpy as np

from qt_bert.probes.baselines.table import Table
from qt_bert.probes.baselines.words import AUC_UNIT, LOG_UNIT, conclusions, source
from qt_bert.probes.claims import beyond, bootstrap_p
from qt_bert.results.baselines import CHARACTERS, NO_PAIRS, RANDOM
from qt_bert.results.probe import Finding
from qt_bert.text import Text


def of_the_pair_objective(table: Table) -> list[Finding]:
    """Boundary and matching heads of the three models that were pretrained anew."""
    mlm = Text("词边界信息来自 MLM", "word boundaries come from MLM")
    found: list[Finding] = []
    heads = table.boundary
    if NO_PAIRS in heads and RANDOM in heads:
        found.append(
            _heads(
                "boundary_without_pairs",
                Text(
                    "没有句对任务，最好的头仍比随机权重的最好的头更会分词（AUC 之差）",
                    "Without the pair objective the best head still tells word ends better than the "
                    "best of random weights (difference in AUC)",
                ),
                ("2.2", mlm),
                heads[NO_PAIRS].value - heads[RANDOM].value,
                heads[NO_PAIRS].samples - heads[RANDOM].samples,
                heads[NO_PAIRS].n_queries,
                AUC_UNIT,
                (
                    Text("分词不靠句对任务。", "Word boundaries do not need the pair objective."),
                    Text(
                        "没有句对任务，分词的头并不比随机权重好。",
                        "Without it no head tells word ends better than random weights.",
                    ),
                ),
            )
        )
    if NO_PAIRS in heads and CHARACTERS in heads:
        found.append(
            _heads(
                "boundary_of_pairs",
                Text(
                    "加上句对任务，最好的头的 AUC 变化",
                    "What the pair objective adds to the best head's AUC",
                ),
                ("2.2", mlm),
                heads[CHARACTERS].value - heads[NO_PAIRS].value,
                heads[CHARACTERS].samples - heads[NO_PAIRS].samples,
                heads[CHARACTERS].n_queries,
                AUC_UNIT,
            )
        )
    return found + _of_matching(table)


def _of_matching(table: Table) -> list[Finding]:
    nsp = Text("匹配可能来自 NSP", "matching may come from NSP")
    heads = table.matching
    found: list[Finding] = []
    if NO_PAIRS in heads and CHARACTERS in heads:
        with_pairs, without = heads[CHARACTERS], heads[NO_PAIRS]
        found.append(
            _heads(
                "matching_of_pairs",
                Text(
                    "有句对任务时，最好的匹配头的得分更高（对数之差）",
                    "With the pair objective the best matching head scores higher (in logarithms)",
                ),
                ("2.4.1", nsp),
                float(np.log(with_pairs.value) - np.log(without.value)),
                with_pairs.logs - without.logs,
                with_pairs.n_queries,
                LOG_UNIT,
                (
                    Text("句对任务让头学会匹配。", "The pair objective teaches heads to match."),
                    Text("句对任务没有让匹配更强。", "The pair objective makes it no stronger."),
                ),
            )
        )
    if NO_PAIRS in heads:
        found.append(
            _heads(
                "matching_without_pairs",
                Text(
                    "没有句对任务，最好的匹配头的得分（对数；0 为不匹配）",
                    "Without it, the best matching head's score (logarithm; 0 is no matching)",
                ),
                ("2.4.1", nsp),
                float(np.log(heads[NO_PAIRS].value)),
                heads[NO_PAIRS].logs,
                heads[NO_PAIRS].n_queries,
                LOG_UNIT,
            )
        )
    return found


def _heads(
    id: str,
    claim: Text,
    said: tuple[str, Text],
    value: float,
    samples: np.ndarray,
    n_queries: int,
    unit: str | Text,
    concluded: tuple[Text, Text] | None = None,
) -> Finding:
    """A figure of heads above 0; without conclusions it stands beside the claims."""
    return beyond(
        f"baselines.{id}",
        claim,
        source(*said),
        value,
        samples,
        p=bootstrap_p(samples, 0.0, n_queries),
        n_queries=n_queries,
        unit=unit,
        primary=concluded is not None,
        conclusions=None if concluded is None else conclusions(*concluded),
    )
