"""Write the JSON Schema where editors look for it: beside the specs, outside git, as it includes installed plugins."""

from pathlib import Path

from qualm.registry.formats import atomic

SCHEMA = "spec.schema.json"
FIRST_LINE = f"# yaml-language-server: $schema=./{SCHEMA}\n"
"""First line of a spec, by which editors find the schema."""
_IGNORE = f"# Written by qualm: the schema has the plugins of this machine.\n/{SCHEMA}\n/.gitignore\n"


def write_schema(root: Path) -> None:
    """Write specs/spec.schema.json if it is missing or out of date, and have git ignore it."""
    from qualm.compiler.schema.json_schema import schema_text

    path, text = root / "specs" / SCHEMA, schema_text()
    ignore = path.with_name(".gitignore")
    if not ignore.exists():  # keep one that the user wrote
        atomic.write_text(ignore, _IGNORE)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic.write_text(path, text)
