"""The engine digest: moves with code that runs, stays for comments, docstrings, layout and type checkers' imports."""

import importlib.metadata

import pytest

from qualm.runners.runtime import code_digest


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)
    for name, text in {
        "runners/__init__.py": "",
        "runners/plugins/models/__init__.py": "X = 1\n",
        "runners/plugins/models/m.py": "from typing import TYPE_CHECKING\nfrom qualm.runners import helper\n"
        "if TYPE_CHECKING:\n    import qualm.registry.kinds\n\n"
        'def m():\n    """Help."""\n    from qualm.registry.lazy import f\n    return helper.g(f)  # a comment\n',
        "runners/helper.py": "def g(f):\n    return f()\n",
        "runners/unrelated.py": "y = 1\n",
        "registry/__init__.py": "",
        "registry/lazy.py": "import qualm.runners.plugins.models.m\ndef f():\n    return 1\n",
        "registry/kinds.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest():
    code_digest.source_digest.cache_clear()
    return code_digest.engine_digest("qualm.runners.plugins.models.m")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_closure_is_what_runs(house):
    found = code_digest.closure("qualm.runners.plugins.models.m")
    assert set(found) == {
        "qualm.runners",
        "qualm.runners.plugins.models",
        "qualm.runners.plugins.models.m",
        "qualm.runners.helper",
        "qualm.registry",
        "qualm.registry.lazy",
    }


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("runners/plugins/models/m.py", "  # a comment", "  # another, longer"),
        ("runners/plugins/models/m.py", "Help.", "More help."),
        ("runners/plugins/models/m.py", "helper.g(f)", "helper.g(\n        f\n    )"),
        ("runners/unrelated.py", "1", "2"),
    ],
)
def test_stays(house, file, old, new):
    before = digest()
    edit(house / file, old, new)
    assert digest() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("runners/plugins/models/m.py", "helper.g(f)", "helper.g(f) + 1"),
        ("runners/plugins/models/__init__.py", "1", "2"),
        ("runners/helper.py", "f()", "f"),
        ("registry/lazy.py", "return 1", 'return "1"'),
    ],
)
def test_moves(house, file, old, new):
    before = digest()
    edit(house / file, old, new)
    assert digest() != before


def test_moves_with_a_library_but_not_with_its_build(house, monkeypatch):
    before = digest()
    real = importlib.metadata.version
    for version, same in (("9.9.9", False), (real("torch").partition("+")[0] + "+cu130", True)):
        monkeypatch.setattr(code_digest, "version", lambda name, version=version: version if name == "torch" else real(name))
        assert (digest() == before) is same


def test_a_foreign_plugin_stands_for_itself_and_its_distribution(monkeypatch):
    before = code_digest.engine_digest("annotated_types")
    real = importlib.metadata.version
    monkeypatch.setattr(code_digest, "version", lambda name: "9" if name == "annotated-types" else real(name))
    assert code_digest.engine_digest("annotated_types") != before


def test_the_engine_of_hf_vlm_is_small():
    assert set(code_digest.closure("qualm.runners.plugins.models.hf_vlm")) == {
        "qualm.runners.contracts",
        "qualm.runners.contracts.models",
        "qualm.runners.inference",
        "qualm.runners.inference.hf",
        "qualm.runners.inference.hf.model",
        "qualm.runners.plugins",
        "qualm.runners.prompts",
        "qualm.runners.runtime",
        "qualm.registry",
        "qualm.runners",
        "qualm.runners.plugins.models",
        "qualm.runners.inference.hf.adapters",
        "qualm.runners.inference.hf.double",
        "qualm.runners.inference.hf.folder",
        "qualm.runners.inference.hf.layout",
        "qualm.runners.inference.hf.one_pass",
        "qualm.runners.inference.hf.own_answer",
        "qualm.runners.inference.hf.quantized",
        "qualm.runners.inference.hf.rows",
        "qualm.runners.inference.hf.sampling",
        "qualm.runners.inference.hf.still_images",
        "qualm.runners.inference.hf.weights",
        "qualm.runners.plugins.models.hf_vlm",
        "qualm.runners.runtime.precision",
        "qualm.runners.prompts.question",
    }


def test_one_file_alone(house):
    path = house / "runners" / "plugins" / "models" / "m.py"

    def alone():
        code_digest.source_digest.cache_clear()
        return code_digest.file_digest(path)

    before = alone()
    edit(house / "runners" / "helper.py", "return f()", "return f() + 1")
    edit(path, "# a comment", "# another")
    assert alone() == before
    edit(path, "helper.g(f)", "helper.g(f) + 1")
    assert alone() != before


def test_a_module_that_asks_others_names_what_shapes_its_answers(house):
    """Neither our libraries nor how a server is reached: both would be paid for again."""
    listed = house / "runners" / "plugins" / "models" / "m.py"
    edit(
        listed,
        "from qualm.runners import helper\n",
        'from qualm.runners import helper\nENGINE = ["qualm.runners.plugins.models.m", "qualm.runners.unrelated"]\n',
    )
    before = digest()
    edit(house / "runners" / "helper.py", "f()", "f() + 1")
    assert digest() == before
    edit(house / "runners" / "unrelated.py", "1", "2")
    assert digest() != before
    edit(listed, '"qualm.runners.unrelated"', '"qualm.runners.nowhere"')
    with pytest.raises(ModuleNotFoundError, match=r"runners\.nowhere"):
        digest()
