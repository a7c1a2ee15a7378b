"""Write all pairs that a training recipe reads into one file, for `qt-bert check --against`.

python benchmarks/seen_in_training.py RECIPE --data DATA --out seen.tsv
qt-bert check seen.tsv --against DATA/pairs/qbqtc_eval.jsonl
"""

from __future__ import annotations

from pathlib import Path

from common.command import parser_of

from qt_bert.data.reader import one_line
from qt_bert.files import atomic_write
from qt_bert.training.recipes import load_recipe


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    seen: dict[tuple[str, str], None] = {}
    for source in load_recipe(arguments.recipe, arguments.data).pairs:
        pairs = source.read()
        seen |= dict.fromkeys((one_line(p.query), one_line(p.title)) for p in pairs)
        print(f"{source.file.name}: {len(pairs):,} rows")
    with atomic_write(arguments.out) as temporary, open(temporary, "w", encoding="utf-8") as out:
        out.write("query\ttitle\n")
        out.writelines(f"{query}\t{title}\n" for query, title in seen)
    print(f"{len(seen):,} different pairs: {arguments.out}")


if __name__ == "__main__":
    main()
