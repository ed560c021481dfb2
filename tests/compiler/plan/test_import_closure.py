"""Import closures: every repo module that a file imports, however it imports it, and no other."""

from pathlib import Path

from qualm.compiler.plan.import_closure import closure as closure_of


def closure(modules: list[str], root: Path) -> tuple[str, ...]:
    return tuple(sorted(closure_of(modules, root)))


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_all_ways_to_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "runners/__init__.py": "",
            "runners/a.py": "import numpy\nfrom qualm.runners import b\nfrom qualm.runners.deep import c\n\n"
            "def f():\n    from qualm.runners.late import g\n",
            "runners/b.py": "import qualm.registry.words as w\n",
            "runners/deep/__init__.py": '"""Not empty: it runs too."""\nfrom .d import x\n',
            "runners/deep/c.py": "from ..b import z\n",
            "runners/deep/d.py": "x = 1\n",
            "runners/late.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from qualm.runners.unused import T\n",
            "runners/unused.py": "",
            "registry/words.py": "",
            "runners/runtime/settings.py": "",
        },
    )
    assert closure(["qualm.runners.a"], tmp_path) == (
        "registry/words.py",
        "runners/a.py",
        "runners/b.py",
        "runners/deep/__init__.py",
        "runners/deep/c.py",
        "runners/deep/d.py",
        "runners/late.py",
    )


def test_an_import_counts_wherever_a_statement_may_stand(tmp_path: Path) -> None:
    blocks = (
        "if x:\n    import qualm.runners.a\nelse:\n    import qualm.runners.b\n"
        "try:\n    import qualm.runners.c\nexcept E:\n    import qualm.runners.d\n"
        "else:\n    import qualm.runners.e\nfinally:\n    import qualm.runners.f\n"
        "class C:\n    async def f(self):\n        with x:\n            for i in x:\n                import qualm.runners.g\n"
        "match x:\n    case 1:\n        while x:\n            import qualm.runners.h\n"
    )
    write(tmp_path, {"runners/all.py": blocks, **{f"runners/{name}.py": "" for name in "abcdefghi"}})
    assert closure(["qualm.runners.all"], tmp_path) == tuple(sorted(["runners/all.py", *(f"runners/{name}.py" for name in "abcdefgh")]))


def test_execution_settings_are_no_content(tmp_path: Path) -> None:
    write(tmp_path, {"runners/a.py": "from qualm.runners.runtime.settings import S\n", "runners/runtime/settings.py": ""})
    assert closure(["qualm.runners.a"], tmp_path) == ("runners/a.py",)


def test_assets_that_a_module_names_are_part_of_it(tmp_path: Path) -> None:
    write(tmp_path, {"runners/a.py": 'ASSETS = ("page/x.html",)\n', "runners/page/x.html": "<p>"})
    assert closure(["qualm.runners.a"], tmp_path) == ("runners/a.py", "runners/page/x.html")
