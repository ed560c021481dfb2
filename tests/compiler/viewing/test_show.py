"""Which results `qualm view` shows."""

from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.compiler.viewing.show import publish_results, site_of


def test_all_specs_that_have_results(viewed: Project) -> None:
    (viewed.root / "specs" / "later.yaml").write_text(
        (viewed.root / "specs" / "small.yaml").read_text().replace("name: small", "name: later")
    )
    (viewed.root / "specs" / "broken.yaml").write_text("qualm: 1\nname: [")
    try:
        assert list(site_of(viewed, []).parts) == ["small"]
        assert site_of(viewed, []).title == "Small <i>benchmark</i>" and site_of(viewed, [], "Mine").title == "Mine"
        with pytest.raises(ProjectError, match="later"):
            site_of(viewed, ["small", "later"])
        with pytest.raises(SpecError, match="no such spec"):
            site_of(viewed, ["nobody"])
    finally:
        (viewed.root / "specs" / "later.yaml").unlink()
        (viewed.root / "specs" / "broken.yaml").unlink()


def test_publishing_says_where_it_lies(viewed: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish_results(viewed, ["small"], tmp_path / "site", "none", None)
    said = " ".join(capsys.readouterr().out.split())
    assert "small: 288 answers" in said and "index.html" in said and "KiB" in said
