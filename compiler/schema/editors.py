"""The JSON Schema of specs where editors look for it: beside the specs, of the plugins that are installed here, and not in git."""

from pathlib import Path

from qualm.registry.formats import atomic

SCHEMA = "spec.schema.json"
FIRST_LINE = f"# yaml-language-server: $schema=./{SCHEMA}\n"
"""Of a spec, by which editors find it."""
_IGNORE = f"# Written by qualm: the schema has the plugins of this machine.\n/{SCHEMA}\n/.gitignore\n"


def write_schema(root: Path) -> None:
    """Write specs/spec.schema.json where it is not there or other plugins are installed now, and hide it from git."""
    from qualm.compiler.schema.json_schema import schema_text

    path, text = root / "specs" / SCHEMA, schema_text()
    ignore = path.with_name(".gitignore")
    if not ignore.exists():  # one of the user's own stays as it is
        atomic.write_text(ignore, _IGNORE)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic.write_text(path, text)
