"""The engine digest: moves with code that runs, stays for comments, docstrings, layout and type checkers' imports."""

import pytest

from qualm.runners.runtime import code_digest, libraries
from qualm.runners.runtime.code_digest import engine
from tests.support.checks.other_versions import raised


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


@pytest.mark.parametrize(
    ("library", "moved", "same"),
    [("torch", (0, 0, 9), True), ("torch", (0, 9, 0), False), ("numpy", (0, 9, 0), True), ("pillow", (9, 0, 0), False)],
)
def test_moves_with_a_series_of_a_library_alone(house, monkeypatch, library, moved, same):
    before = digest()
    real = libraries.version
    now = [int(n) + m for n, m in zip(real(library).partition("+")[0].split("."), moved, strict=True)]
    later = ".".join(map(str, now)) + "+cu130"
    monkeypatch.setattr(libraries, "version", lambda name: later if name == library else real(name))
    assert (digest() == before) is same


def test_a_foreign_plugin_stands_for_itself_and_its_distribution(monkeypatch):
    before = code_digest.engine_digest("annotated_types")
    real = libraries.version
    monkeypatch.setattr(libraries, "version", lambda name: "9" if name == "annotated-types" else real(name))
    assert code_digest.engine_digest("annotated_types") != before


def test_our_own_modules_count_by_their_versions(monkeypatch):
    own = engine("qualm.runners.plugins.models.hf_vlm")
    assert own.plugins == {"models/hf_vlm": 1} and not own.content and own.behind() == {}
    assert set(own.versions) == {
        "forward",
        "thinking",
        "sampling",
        "options",
        "priors",
        "divergence",
        "self_report",
        "prompts",
        "internals",
        "uniform",
        "attention",
        "token_ends",
    }
    raised(monkeypatch, "sampling")
    later = engine("qualm.runners.plugins.models.hf_vlm")
    assert later.identity == own.identity and later.behind("draw 3") == {"sampling": 2} == later.behind()
    assert later.behind("answer") == {} == later.behind("p_true_sampling")
    assert later.takes("answer", {}) and not later.takes("draw 3", {}) and later.takes("draw 3", {"sampling": 2})
    assert not own.takes("draw 1", {"sampling": 2})
    raised(monkeypatch, "forward")
    assert all("forward" in engine("qualm.runners.plugins.models.hf_vlm").behind(part) for part in ("answer", "options", "draw 1", "p_yes"))


def test_a_plugin_of_nobody_we_know_counts_by_its_content_and_by_the_versions_it_stands_on(house, monkeypatch):
    """A file of a user's own: what it imports of ours reaches all of its parts, since nobody knows which use it."""
    place = house / "runners/plugins/models/m.py"
    edit(place, "from qualm.runners import helper", "from qualm.runners import helper\nfrom qualm.runners.inference.hf import sampling")
    (house / "runners/inference/hf").mkdir(parents=True)
    (house / "runners/inference/hf/sampling.py").write_text("rule = 1\n")
    before = engine("qualm.runners.plugins.models.m")
    assert before.content and before.versions == {"sampling": 1} and not before.plugins
    (house / "runners/inference/hf/sampling.py").write_text("rule = 2\n")
    code_digest.source_digest.cache_clear()
    assert engine("qualm.runners.plugins.models.m") == before
    raised(monkeypatch, "sampling")
    assert engine("qualm.runners.plugins.models.m").behind("answer") == {"sampling": 2}
    edit(house / "runners/helper.py", "f()", "f() + 1")
    code_digest.source_digest.cache_clear()
    assert engine("qualm.runners.plugins.models.m").identity != before.identity


def test_the_engine_of_hf_vlm_is_small():
    assert set(code_digest.closure("qualm.runners.plugins.models.hf_vlm")) == {
        "qualm.runners.contracts",
        "qualm.runners.contracts.models",
        "qualm.runners.contracts.parts",
        "qualm.runners.inference",
        "qualm.runners.inference.hf",
        "qualm.runners.inference.hf.inside",
        "qualm.runners.inference.hf.inside.attention",
        "qualm.runners.inference.hf.model",
        "qualm.runners.plugins",
        "qualm.runners.prompts",
        "qualm.runners.runtime",
        "qualm.registry",
        "qualm.registry.machine",
        "qualm.registry.picture_lists",
        "qualm.registry.plugins",
        "qualm.registry.plugins.extras",
        "qualm.registry.plugins.internals",
        "qualm.runners",
        "qualm.runners.plugins.models",
        "qualm.runners.inference.hf.adapters",
        "qualm.runners.inference.devices",
        "qualm.runners.inference.hf.chat_template",
        "qualm.runners.inference.hf.computing",
        "qualm.runners.inference.hf.computing.double",
        "qualm.runners.inference.hf.computing.once",
        "qualm.runners.inference.hf.computing.token_numbers",
        "qualm.runners.inference.hf.folder",
        "qualm.runners.inference.hf.internals",
        "qualm.runners.inference.hf.layout",
        "qualm.runners.inference.hf.one_pass",
        "qualm.runners.inference.hf.own_answer",
        "qualm.runners.inference.hf.plain",
        "qualm.runners.inference.hf.quantized",
        "qualm.runners.inference.hf.rows",
        "qualm.runners.inference.hf.sampling",
        "qualm.runners.inference.hf.self_check",
        "qualm.runners.inference.hf.still_images",
        "qualm.runners.inference.hf.inside.taps",
        "qualm.runners.inference.hf.thinking",
        "qualm.runners.inference.hf.weights",
        "qualm.runners.plugins.models.hf_vlm",
        "qualm.runners.runtime.precision",
        "qualm.runners.prompts.question",
        "qualm.runners.prompts.thinking",
    }


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
