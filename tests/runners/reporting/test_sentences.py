"""The sentences of the report: all in one module, each used, and filled in with exactly its fields."""

import ast
import re
import string
from pathlib import Path

from qualm.runners.reporting import sentences
from qualm.runners.stages import report
from tests.bench.cold_read import messages

REPORTING = Path(sentences.__file__).parent
MODULES = [path for path in (*sorted(REPORTING.rglob("*.py")), Path(report.__file__)) if path.name != "sentences.py"]
TEMPLATES = sorted((REPORTING / "templates").glob("*.html"))
NAMES = [name for name in vars(sentences) if name.isupper()]


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def calls() -> list[tuple[str, str, set[str]]]:
    """Return place, sentence and keywords of every `say.SENTENCE.format(...)`."""
    found = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("say.") and ast.unparse(node.func).endswith(".format"):
                keywords = {keyword.arg for keyword in node.keywords}
                if None not in keywords:
                    found.append((f"{path.name}:{node.lineno}", ast.unparse(node.func).split(".")[1], keywords))
    return found


def test_every_sentence_is_filled_in_with_its_fields():
    found = calls()
    assert len(found) > 100
    wrong = {place: (name, given) for place, name, given in found if given != fields(getattr(sentences, name))}
    assert not wrong, wrong


def test_every_sentence_is_used():
    used = {name for path in (*MODULES, *TEMPLATES) for name in re.findall(r"\bsay\.([A-Z_0-9]+)\b", path.read_text(encoding="utf-8"))}
    assert len(NAMES) > 300 and used == set(NAMES)


def test_no_sentence_of_the_report_stands_elsewhere():
    rooms = ("runners/reporting/", "runners/stages/report.py")
    sentences_by_place = {place: text for place, text in messages() if place.startswith(rooms)}
    assert any("sentences.py" in place for place in sentences_by_place)
    exempt = ("expected", "default-src")  # errors, and the content security policy
    elsewhere = {p: text for p, text in sentences_by_place.items() if "sentences.py" not in p and not any(word in text for word in exempt)}
    assert not elsewhere, elsewhere


def test_templates_hold_no_sentences():
    texts = []
    for path in TEMPLATES:
        shown = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        texts += [(path.name, text.strip()) for text in re.split(r"<[^>]*>|\n", shown)]
    assert any(texts)
    assert not [(name, text) for name, text in texts if len(re.findall(r"[A-Za-z]{2,}", text)) > 4]
