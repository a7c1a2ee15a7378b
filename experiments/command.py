"""What the studies' commands share."""

from __future__ import annotations

import argparse

from benchmarks.common.command import one_line_faults as one_line_faults


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that is described by the first line of a study's docstring."""
    return argparse.ArgumentParser(description=(description or "").partition("\n")[0])
