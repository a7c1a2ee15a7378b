import re
import tomllib
from pathlib import Path

from qt_bert import report

FOLDER = Path(report.__file__).parent
WORDS = tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8"))
FILES = (*FOLDER.glob("*.py"), *FOLDER.glob("templates/**/*.j2"))
CODE = "\n".join(path.read_text(encoding="utf-8") for path in FILES)


def test_every_text_has_both_languages():
    for name, texts in WORDS.items():
        assert set(texts) == {"zh", "en"} and all(texts.values()), name


def test_every_name_is_known_and_every_text_used():
    named = set(re.findall(r"""(?:wording|words)\(\s*["'](\w+)["']""", CODE))
    listed = {name for name in WORDS if f'"{name}"' in CODE or f"'{name}'" in CODE}
    assert named <= set(WORDS), named - set(WORDS)
    assert listed == set(WORDS), set(WORDS) - listed
