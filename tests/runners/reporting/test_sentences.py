"""The sentences of the report stand in one module, and its templates hold none (`tests/compiler/test_sentences.py` checks their fields)."""

import re
from pathlib import Path

from qualm.runners.reporting import sentences
from tests.bench.cold_read import messages

TEMPLATES = sorted((Path(sentences.__file__).parent / "templates").glob("*.html"))


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
