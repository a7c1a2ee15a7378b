"""Graded pairs of random characters."""

from collections.abc import Sequence

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.planning.task import Sample

CHARACTERS = "北京到上海高铁票价时刻表查询怎么去除衣服油渍红烧排骨家常做法苹果手机多少钱狗追猫"
EXACT = ((1,), (2,), (3,), (4,), (5,))


def sample(name: str, count: int, seed: int, grades: Sequence[tuple[int, ...]] = EXACT) -> Sample:
    """`count` pairs of half as many queries, of random characters."""
    rng = np.random.default_rng(seed)

    def text(low: int, high: int) -> str:
        return "".join(rng.choice(list(CHARACTERS), rng.integers(low, high)))

    queries = [f"{text(2, 6)}{place}" for place in range(count // 2)]
    pairs = [
        Pair(
            line=place + 2,
            id=str(place),
            query=queries[place // 2],
            title=text(4, 12),
            label=str(place),
            grades=grades[int(rng.integers(len(grades)))],
            extra={},
        )
        for place in range(count)
    ]
    return Sample.of(name, f"{seed:064x}", pairs)
