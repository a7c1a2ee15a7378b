"""One pair's maps in one head before and after fine-tuning, and what grew and shrank, as figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qt_bert.figures import HeatMap
from qt_bert.probes.display import token_map
from qt_bert.probes.shift.case import Case
from qt_bert.probes.shift.words import AFTER, BEFORE
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

_STRENGTHENED = Text(
    "增强 = max(微调后 − 微调前, 0)。原文的式子写作“微调前 − 微调后 > 0”，符号反了。",
    "Strengthened = max(after − before, 0). The article prints “before − after > 0”, with the sign "
    "reversed.",
)
_WEAKENED = Text("减弱 = max(微调前 − 微调后, 0)。", "Weakened = max(before − after, 0).")


def case_maps(
    case: Case,
    about: Text,
    looking: Sequence[int] | None = None,
    looked_at: Sequence[int] | None = None,
) -> Iterator[HeatMap]:
    """Four maps of one pair, called `about`; the two of a kind share their colours' range.

    `looking` and `looked_at` are the places of the tokens whose rows and columns are drawn, by
    default all.
    """
    rows = range(len(case.tokens)) if looking is None else looking
    columns = range(len(case.tokens)) if looked_at is None else looked_at

    def drawn(
        name: str, what: Text, values: FloatArray, high: float, note: Text | None = None
    ) -> HeatMap:
        return token_map(
            f"case_{name}",
            Text(f"{about.zh}，{what.zh}", f"{about.en}, {what.en}"),
            [case.tokens[place] for place in rows],
            [case.tokens[place] for place in columns],
            part(values),
            low=0.0,
            high=high,
            note=note,
        )

    def part(values: FloatArray) -> FloatArray:
        return values[list(rows)][:, list(columns)]

    whole = max(_largest(part(values)) for values in (case.before, case.after))
    changed = max(_largest(part(values)) for values in (case.strengthened, case.weakened))
    stronger, weaker = Text("微调后增强", "strengthened"), Text("微调后减弱", "weakened")
    yield drawn("before", BEFORE, case.before, whole)
    yield drawn("after", AFTER, case.after, whole)
    yield drawn("strengthened", stronger, case.strengthened, changed, _STRENGTHENED)
    yield drawn("weakened", weaker, case.weakened, changed, _WEAKENED)


def _largest(values: FloatArray) -> float:
    return float(values.max(initial=0.0))
