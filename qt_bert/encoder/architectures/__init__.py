"""Models that grade a pair another way than a cross-encoder does: what a BERT is compared with.

Each is one file; `registry` names them without loading torch. All read the batches that the
cross-encoder reads, and take query and title apart inside, so that tokenizer, truncation, scoring and
evaluation are the same. None has attention heads that a probe could name.
"""

from qt_bert.encoder.architectures.registry import (
    ARCHITECTURES,
    CROSS_ENCODER,
    TITLES,
    Architecture,
    architecture_named,
    architecture_of,
)

__all__ = [
    "ARCHITECTURES",
    "CROSS_ENCODER",
    "TITLES",
    "Architecture",
    "architecture_named",
    "architecture_of",
]
