"""The import closure: whatever an import looks like, the file behind it counts, for the compiler and for the store of answers alike."""

import sys
from pathlib import Path

import pytest

from qualm.compiler.plan.layout import closure as stage_closure
from qualm.compiler.plan.sources import Sources
from qualm.registry.plugins import registry
from qualm.registry.plugins.imports import PACKAGES, absolute, closure, package_of, roots_of
from qualm.registry.plugins.registry import ROOT
from qualm.runners.runtime import code_digest
from tests.support.checks.plugin_files import write

HERE = "runners/plugins/models/m.py"


def names(root: Path, module: str = "qualm.runners.plugins.models.m") -> set[str]:
    return set(closure([module], dict.fromkeys(PACKAGES, root)))


WAYS = {
    "absolutely": "import qualm.runners.plugins.models.helper",
    "under another name": "import qualm.runners.plugins.models.helper as h",
    "from its package": "from qualm.runners.plugins.models import helper",
    "a name in it": "from qualm.runners.plugins.models.helper import f",
    "relatively": "from .helper import f",
    "the package relatively": "from . import helper",
    "from the package above": "from ..models.helper import f",
    "everything": "from .helper import *",
    "everything of a package": "from . import *",
    "within a function": "def m():\n    def inner():\n        from .helper import f",
    "within a class": "class C:\n    from .helper import f",
    "when something is missing": "try:\n    import fast\nexcept ImportError:\n    from .helper import f",
    "for some": "if x:\n    pass\nelse:\n    from . import helper",
    "at run time only": "if TYPE_CHECKING:\n    pass\nelse:\n    from . import helper",
    "by a call": 'import importlib\ng = importlib.import_module("qualm.runners.plugins.models.helper")',
    "by a relative call": 'from importlib import import_module\ng = import_module(".helper", __package__)',
    "by the oldest call": 'g = __import__("qualm.runners.plugins.models.helper")',
}


@pytest.mark.parametrize("way", WAYS)
def test_a_helper_counts_however_it_is_imported(tmp_path: Path, way: str) -> None:
    write(tmp_path, {HERE: WAYS[way] + "\n", "runners/plugins/models/__init__.py": ""})
    write(tmp_path, {"runners/plugins/models/helper.py": "from . import deeper\n", "runners/plugins/models/deeper.py": ""})
    assert {"qualm.runners.plugins.models.m", "qualm.runners.plugins.models.helper", "qualm.runners.plugins.models.deeper"} <= names(
        tmp_path
    )


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_of_a_helper_moves_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Else the answers of the code before it would be taken for its own."""
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)
    write(tmp_path, {HERE: WAYS[way] + "\n", "runners/plugins/models/__init__.py": "", "runners/plugins/models/helper.py": "x = 1\n"})
    before = code_digest.engine_digest("qualm.runners.plugins.models.m")
    write(tmp_path, {"runners/plugins/models/helper.py": "x = 2\n"})
    code_digest.source_digest.cache_clear()
    assert code_digest.engine_digest("qualm.runners.plugins.models.m") != before


def test_packages_run_first_and_win_over_modules(tmp_path: Path) -> None:
    files = {HERE: "import qualm.runners.deep.x\n", "runners/__init__.py": "from . import early\n", "runners/early.py": ""}
    write(
        tmp_path,
        {
            **files,
            "runners/deep/__init__.py": "from .y import z\n",
            "runners/deep/x.py": "",
            "runners/deep/y.py": "",
            "runners/deep.py": "",
        },
    )
    found = closure(["qualm.runners.plugins.models.m"], dict.fromkeys(PACKAGES, tmp_path))
    assert {"qualm.runners", "qualm.runners.early", "qualm.runners.deep", "qualm.runners.deep.x", "qualm.runners.deep.y"} <= set(found)
    assert found["qualm.runners.deep"] == tmp_path / "runners/deep/__init__.py"


def test_what_only_type_checkers_read_and_what_only_executes_do_not_count(tmp_path: Path) -> None:
    lines = (
        "import typing\nif typing.TYPE_CHECKING:\n    from . import helper\nfrom qualm.runners.runtime.settings import S\nimport numpy\n"
    )
    write(
        tmp_path,
        {
            HERE: lines,
            "runners/plugins/models/helper.py": "",
            "runners/runtime/settings.py": "import qualm.runners.late\n",
            "runners/late.py": "",
        },
    )
    assert names(tmp_path) == {"qualm.runners.plugins.models.m"}


def test_assets_are_part_of_what_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)
    write(tmp_path, {HERE: 'ASSETS = ["../../../specs/p.md"]\n', "specs/p.md": "Why?"})
    assert names(tmp_path) == {"qualm.runners.plugins.models.m", "specs/p.md"}
    before = code_digest.engine_digest("qualm.runners.plugins.models.m")
    write(tmp_path, {"specs/p.md": "What?"})
    code_digest.source_digest.cache_clear()
    assert code_digest.engine_digest("qualm.runners.plugins.models.m") != before


def test_another_package_counts_with_all_its_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is being worked on keeps its version while its files change."""
    files = {
        "__init__.py": "",
        "plugin.py": "from ._helper import f\nfrom qualm.registry import sample\nimport numpy\n",
        "_helper.py": "x = 1\n",
    }
    write(tmp_path / "elsewhere", {f"acme_vlms/{name}": text for name, text in files.items()})
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    found = closure(["acme_vlms.plugin"], roots_of("acme_vlms.plugin", ROOT))
    assert {"acme_vlms", "acme_vlms.plugin", "acme_vlms._helper", "qualm.registry.sample"} <= set(found)
    assert not {name for name in found if package_of(name) not in ("acme_vlms", "qualm.registry")}
    assert "acme_vlms" not in sys.modules
    before = code_digest.engine_digest("acme_vlms.plugin")
    write(tmp_path / "elsewhere", {"acme_vlms/_helper.py": "x = 2\n"})
    code_digest.source_digest.cache_clear()
    assert code_digest.engine_digest("acme_vlms.plugin") != before


@pytest.mark.parametrize(
    ("name", "package", "whole"),
    [("a.b", "p.q", "a.b"), (".b", "p.q", "p.q.b"), ("..b", "p.q", "p.b"), (".", "p.q", "p.q"), ("..", "p.q", "p")],
)
def test_relative_names(name: str, package: str, whole: str) -> None:
    assert absolute(name, package) == whole


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


@pytest.mark.parametrize("kind", registry.KINDS)
def test_stages_depend_on_what_answers_are_keyed_by(kind: str, sources: Sources) -> None:
    for name in registry.names(kind):
        module = registry.get(kind, name).module
        engine = {path for path in code_digest.module_files(module).values() if path.name != "__init__.py" or path.stat().st_size}
        assert engine == set(stage_closure([module], ROOT, sources).values()), module
