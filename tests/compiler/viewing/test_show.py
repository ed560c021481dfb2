"""Which results `qualm view` shows."""

from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.at_revision import Benchmark
from qualm.compiler.results.scores import results_in
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.compiler.viewing.show import make_site, publish_results


@pytest.mark.slow
def test_all_specs_that_have_results(viewed: Project) -> None:
    (viewed.root / "specs" / "later.yaml").write_text(
        (viewed.root / "specs" / "small.yaml").read_text().replace("name: small", "name: later")
    )
    (viewed.root / "specs" / "broken.yaml").write_text("qualm: 1\nname: [")
    try:
        assert list(make_site(viewed, []).parts) == ["small"]
        assert make_site(viewed, []).title == "Small <i>benchmark</i>" and make_site(viewed, [], "Mine").title == "Mine"
        with pytest.raises(ProjectError, match="later"):
            make_site(viewed, ["small", "later"])
        with pytest.raises(SpecError, match="no such spec"):
            make_site(viewed, ["nobody"])
    finally:
        (viewed.root / "specs" / "later.yaml").unlink()
        (viewed.root / "specs" / "broken.yaml").unlink()


def test_publishing_says_where_it_lies(viewed: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish_results(viewed, ["small"], tmp_path / "site", "none", None)
    said = " ".join(capsys.readouterr().out.split())
    assert "small: 288 answers" in said and "index.html" in said and "KiB" in said


@pytest.mark.slow
def test_beside_a_revision(viewed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, with a key of its own; git and the cache are those of `benchmark_at`'s own tests."""
    plan = viewed.plan("small")
    (scored,) = (s for s in plan.stages if "scores" in s.outputs)
    wanted = []

    def then(project: Project, revision: str, spec: str, pull: bool, tables: bool) -> Benchmark:
        wanted.append((revision, spec, pull, tables))
        return Benchmark(results_in(plan.stages, scored, spec, project.root), tuple(plan.stages))

    monkeypatch.setattr("qualm.compiler.viewing.show.benchmark_at", then)
    site = make_site(viewed, ["small"], revisions=["v1/x"])
    assert wanted == [("v1/x", "small", False, True)] and list(site.parts) == ["small", "small@v1-x"]
    make_site(viewed, ["small"], revisions=["v1/x"], pull=True)
    assert wanted[-1] == ("v1/x", "small", True, True)
    publish_results(viewed, ["small"], tmp_path / "site", "none", None, revisions=["v1/x"])
    assert wanted[-1] == ("v1/x", "small", False, True), "nothing is fetched that nobody asked for"
    assert site.file("data/small@v1-x/board.js") and "2 sets of results" in site.title
