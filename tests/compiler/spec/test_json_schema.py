import jsonschema
import pytest

from qualm.compiler.spec.json_schema import schema, schema_text
from tests.compiler.spec.resolving import GOOD, change

BASE = "base: {hf_vlm: {artifact: scene-vlm-base}}"


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(schema())


def fits(validator, text):
    import yaml

    return not list(validator.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize(
    "old, new, is_right",
    [
        ("bins: 15", "bins: 16", True),
        ("bins: 15", "bins: many", False),
        ("bins: 15", "bns: 15", False),
        ("- accuracy", "- acuracy", False),
        ("name: t", "nam: t", False),
        (BASE, BASE[:-1] + ", leave_out: [perplexity]}", True),
        (BASE, BASE[:-1] + ", leave_out: perplexity}", False),
        (BASE, BASE[:-1] + ", about: {family: x}}", True),
        (BASE, BASE[:-1] + ", per_category: 2}", True),
        (BASE, BASE[:-1] + ", per_category: 1}", False),
        (BASE, BASE[:-1] + ", per_category: 2.5}", False),
        (BASE, BASE[:-1] + ", confidence: none}", True),
        (BASE, BASE[:-1] + ", confidence: some}", False),
        ("judges: [rules]", "finetunes: {f: {sft: {base: base, train: [scenes]}}}", True),
        ("judges: [rules]", "finetunes: {f: {sft: {base: base, train: [scenes]}, leave_out: [x]}}", False),
    ],
)
def test_editors_see_what_the_compiler_would_say(validator, old, new, is_right):
    assert fits(validator, change(old, new)) is is_right


@pytest.mark.slow
def test_the_schema_is_valid():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_spec_without_mistakes(validator):
    assert fits(validator, GOOD)


def test_a_variant_may_leave_out_what_it_inherits_and_remove_sections(validator):
    assert fits(validator, "extends: other.yaml\nname: t\njudges: null\n") and not fits(validator, "qualm: 1\nname: t\n")


def test_the_text_is_the_same_every_time():
    assert schema_text() == schema_text() and schema_text().endswith("}\n")
