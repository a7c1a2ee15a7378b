"""The names of what lies in a run folder, with `/` between their parts."""

from __future__ import annotations

RUN = "run.json"
PARTITIONS = "partitions.jsonl"
MANIFEST = "manifest"
PARTS = "parts"
REJECTS = "rejects"
"""A list of rejects for each partition that has some, until they are one list."""
REJECTS_LIST = "rejects.tsv"
BEGUN = "begun"
"""The marks of partitions that a worker has begun."""


def part_file(partition: str) -> str:
    """The scored rows of a partition."""
    return f"{PARTS}/part-{partition}.parquet"


def rejects_file(partition: str) -> str:
    """The rejects of a partition."""
    return f"{REJECTS}/{partition}.tsv"


def notes_file(partition: str) -> str:
    """What was found out of a partition that workers died of; beside its marks."""
    return f"{BEGUN}/{partition}.killers.json"
