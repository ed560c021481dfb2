"""The engine digest: moves with code that runs, stays for comments, docstrings, layout and type checkers' imports."""

import pytest

from qualm.runners.runtime import code_digest, libraries
from qualm.runners.runtime.code_digest import find_engine
from tests.support.checks.other_versions import raised


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)
    for name, text in {
        "runners/__init__.py": "",
        "runners/plugins/models/__init__.py": "X = 1\n",
        "runners/plugins/models/m.py": "from typing import TYPE_CHECKING\n"
        "from qualm.runners import helper\nfrom qualm.runners.plugins.models import _beside\n"
        "if TYPE_CHECKING:\n    import qualm.registry.kinds\n\n"
        'def m():\n    """Help."""\n    from qualm.registry.lazy import f\n    return helper.g(f) + _beside.h()  # a comment\n',
        "runners/plugins/models/_beside.py": "def h():\n    return 1\n",
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
    found = code_digest.module_files("qualm.runners.plugins.models.m")
    assert set(found) == {
        "qualm.runners",
        "qualm.runners.plugins.models",
        "qualm.runners.plugins.models.m",
        "qualm.runners.plugins.models._beside",
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
        ("runners/plugins/models/m.py", "from typing import", "\ufefffrom typing import"),  # as editors of Windows save it
        ("runners/unrelated.py", "1", "2"),
        ("runners/helper.py", "f()", "f"),  # the engine counts by its versions
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
        ("runners/plugins/models/_beside.py", "return 1", "return 2"),
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
    own = find_engine("qualm.runners.plugins.models.hf_vlm")
    assert own.plugins == ("models/hf_vlm",) and not own.content and own.changed_versions() == {}
    assert set(own.versions) == {"answers", "draws", "options", "priors", "divergences", "internals", "self_reports"}
    raised(monkeypatch, "draws")
    later = find_engine("qualm.runners.plugins.models.hf_vlm")
    assert later.identity == own.identity and later.changed_versions("draw 3") == {"draws": 2} and later.changed_versions() == {"draws": 2}
    assert later.changed_versions("answer") == {} == later.changed_versions("p_true_sampling")
    assert later.accepts("answer", {}) and not later.accepts("draw 3", {}) and later.accepts("draw 3", {"draws": 2})
    assert not own.accepts("draw 1", {"draws": 2})
    raised(monkeypatch, "answers")
    parts = ("answer", "options", "draw 1", "p_yes", "hidden_states/0.5/prompt_last", "token_ends 1")
    assert all("answers" in find_engine("qualm.runners.plugins.models.hf_vlm").changed_versions(part) for part in parts)


@pytest.mark.parametrize(
    ("module", "kinds"),
    [
        ("qualm.runners.plugins.models.openai", {"served_answers"}),
        ("qualm.runners.plugins.models.vllm", {"served_answers"}),
        ("qualm.runners.plugins.models.recorded", {"datasets"}),
        ("qualm.runners.plugins.generators.hf", {"replies"}),
        ("qualm.runners.plugins.nli.hf", {"entailment"}),
        ("qualm.runners.plugins.perturbations.blur", {"variants"}),
        ("qualm.runners.plugins.inpainters.lama", {"pairs"}),
        ("qualm.registry.adapters.pope", {"datasets"}),
        ("qualm.runners.plugins.judges.rules", {"judgements"}),
        ("qualm.runners.plugins.finetunes.sft", {"training"}),
    ],
)
def test_kinds_of_answers_of_our_plugins(module, kinds):
    assert set(find_engine(module).versions) == kinds and not find_engine(module).content


@pytest.mark.parametrize("module", ["qualm.runners.plugins.metrics.ece", "qualm.runners.scoring.measuring.curves"])
def test_code_of_scores_counts_by_its_content(module):
    assert find_engine(module).content and not find_engine(module).versions


def test_a_plugin_of_a_users_own_counts_by_its_content_and_by_all_versions_of_its_kind(house, monkeypatch):
    before = find_engine("qualm.runners.plugins.models.m")
    assert before.content and {"answers", "draws", "served_answers"} <= set(before.versions) and not before.plugins
    edit(house / "runners/helper.py", "f()", "f() + 1")
    code_digest.source_digest.cache_clear()
    assert find_engine("qualm.runners.plugins.models.m") == before, "the engine counts by its versions"
    raised(monkeypatch, "draws")
    assert find_engine("qualm.runners.plugins.models.m").changed_versions("answer") == {"draws": 2}
    edit(house / "runners/plugins/models/m.py", "from qualm.runners import helper", "from qualm.runners import helper\nX = 1")
    code_digest.source_digest.cache_clear()
    assert find_engine("qualm.runners.plugins.models.m").identity != before.identity


def test_the_engine_of_hf_vlm_is_small():
    assert set(code_digest.module_files("qualm.runners.plugins.models.hf_vlm")) == {
        "qualm.runners.contracts",
        "qualm.runners.contracts.models",
        "qualm.runners.contracts.parts",
        "qualm.runners.inference",
        "qualm.runners.inference.hf",
        "qualm.runners.inference.hf.attention",
        "qualm.runners.inference.hf.model",
        "qualm.runners.plugins",
        "qualm.runners.prompts",
        "qualm.runners.runtime",
        "qualm.registry",
        "qualm.registry.plugins.commits",
        "qualm.registry.machine",
        "qualm.registry.formats",
        "qualm.registry.formats.picture_lists",
        "qualm.registry.formats.plausible",
        "qualm.registry.plugins",
        "qualm.registry.plugins.extras",
        "qualm.registry.plugins.internals",
        "qualm.registry.system",
        "qualm.registry.system.textfiles",
        "qualm.runners",
        "qualm.runners.plugins.models",
        "qualm.runners.inference.hf.adapters",
        "qualm.runners.inference.devices",
        "qualm.runners.prompts.chat_template",
        "qualm.runners.inference.hf.double",
        "qualm.runners.inference.hf.once",
        "qualm.runners.inference.hf.token_numbers",
        "qualm.runners.inference.hf.evidence",
        "qualm.registry.entries",
        "qualm.registry.entries.model_folders",
        "qualm.runners.inference.hf.gradients",
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
        "qualm.runners.inference.hf.taps",
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
        'from qualm.runners import helper\nENGINE = ["qualm.runners.plugins.models.m", "qualm.runners.plugins.models._beside"]\n',
    )
    before = digest()
    edit(house / "runners" / "helper.py", "f()", "f() + 1")
    assert digest() == before
    edit(house / "runners/plugins/models/_beside.py", "1", "2")
    assert digest() != before
    edit(listed, '"qualm.runners.plugins.models._beside"', '"qualm.runners.nowhere"')
    with pytest.raises(ModuleNotFoundError, match=r"runners\.nowhere"):
        digest()
