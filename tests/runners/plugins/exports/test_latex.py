"""Tables in LaTeX: as many cells as columns, nothing unescaped."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qualm.runners.plugins.exports.latex import escaped, latex
from tests.runners.plugins.exports.test_results import context, row

METRICS = [f"ece@bins={n}" for n in range(8)]


def test_every_row_has_every_column_and_all_files_are_read_in(tmp_path: Path) -> None:
    made = context(tmp_path)
    latex(made)
    inputs = re.findall(r"\\input\{(.+?)\}", (made.folder / "tables.tex").read_text())
    assert (
        sorted(inputs) == sorted(p.name for p in made.folder.iterdir() if p.name != "tables.tex")
        and made.counts["tables"] == len(inputs) == 4
    )
    for name in inputs:
        text = (made.folder / name).read_text()
        width = len(re.search(r"tabular\}\{(\w+)\}", text)[1])  # type: ignore[index]
        body = [line for line in text.splitlines() if line.endswith(r" \\")]
        assert len(body) >= 2 and {len(re.split(r"(?<!\\)&", line)) for line in body} == {width}
        assert text.count("{") == text.count("}") and not re.search(r"(?<!\\)[_%#](?!to)", re.sub(r"\\label\{.*\}", "", text))


def test_what_is_distinguished_is_bold_and_ties_have_a_dagger(tmp_path: Path) -> None:
    made = context(tmp_path)
    latex(made, digits=2)
    models, estimators = ((made.folder / name).read_text() for name in ("d.tex", "d-auroc.tex"))
    assert r"a & \textbf{0.80} {\scriptsize (0.70 to 0.90)} \\" in models and r"b\_c & 0.50 {\scriptsize (0.40 to 0.60)} \\" in models
    assert r"perplexity & 0.70$^\dagger$ {\scriptsize (0.60 to 0.80)} & $-$0.25 {\scriptsize ($-$0.35 to $-$0.15)} \\" in estimators
    assert r"P(True) & undefined & -- \\" in estimators
    assert (
        r"\caption{d: models by metric. 60 questions in 20 groups. In parentheses: 95\% intervals. $\uparrow$: higher is better. Bold: s"
        in models
    )


def test_without_intervals(tmp_path: Path) -> None:
    made = context(tmp_path)
    latex(made, intervals=False)
    text = (made.folder / "d.tex").read_text()
    assert "scriptsize" not in text and "intervals" not in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_sets_all_tables(tmp_path: Path) -> None:
    hostile = r"ü_50%&#~^<>{}|\x α−†Ω"
    rows = [row(model, metric, 0.5) for model in ("a", hostile) for metric in ("accuracy", "auroc[p_true]", "auroc[odd & 5%]", *METRICS)]
    made = context(tmp_path, rows, place="out")
    latex(made)
    document = [
        r"\documentclass{article}",
        r"\usepackage{booktabs,graphicx}",
        r"\begin{document}",
        r"\input{out/tables.tex}",
        r"\end{document}",
    ]
    (tmp_path / "paper.tex").write_text("\n".join(document))
    done = subprocess.run(["pdflatex", "-halt-on-error", "paper.tex"], cwd=tmp_path, capture_output=True, check=False)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0 and "Missing character" not in log and "Overfull" not in log and (tmp_path / "paper.pdf").is_file(), log[
        -2000:
    ]


def test_characters_that_need_another_latex_are_named(tmp_path: Path) -> None:
    made = context(tmp_path, [row("模型", "accuracy", 0.5)])
    latex(made)
    assert "% needs XeLaTeX or LuaLaTeX and a font that has: 型模\n" in (made.folder / "tables.tex").read_text()


def test_a_document_beside_the_folder_finds_every_file(tmp_path: Path) -> None:
    made = context(tmp_path, place="tables")
    latex(made)
    assert r"\input{tables/d.tex}" in (made.folder / "tables.tex").read_text()


def test_hostile_names_are_text() -> None:
    assert escaped(r"\input{/etc/passwd}") == r"\textbackslash{}input\{/etc/passwd\}"
    assert escaped("αΣ模") == r"$\alpha$$\Sigma$模"
    assert escaped("a&b_50%$#~^<>") == r"a\&b\_50\%\$\#\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}"
