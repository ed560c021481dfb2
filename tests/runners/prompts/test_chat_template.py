"""Prompts depend on the conversation alone: dates in chat templates are fixed, text-only models get strings."""

import datetime
import locale

import jinja2
import pytest

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.chat_template import as_text, fix_date, parse_date, reads_clock
from qualm.runners.prompts.question import messages
from tests.support.models.loaded import loaded_model
from tests.support.models.tiny_models import tiny_llava, tiny_llm

DATE = datetime.date(2024, 7, 6)
FORMATS = "%Y-%m-%d %d %b %Y %B %A %a %-d %e %H:%M:%S %I %p %j %y %-m %u %w %F %T %R %D %X %h %f %c %%d"


def rendered(template, **variables):
    return jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template).render(**variables)


def test_a_date_is_written_as_strftime_writes_it_in_english():
    locale.setlocale(locale.LC_TIME, "C")
    template = fix_date("{{ strftime_now('" + FORMATS + "') }}", DATE)
    assert rendered(template) == datetime.datetime(2024, 7, 6).strftime(FORMATS)


def test_the_text_around_it_stays():
    template = "\n  Today: {% set day = strftime_now('%d %b %Y') %}{{ day }}|{{ question }}\n"
    assert rendered(fix_date(template, DATE), question="?") == rendered(template, question="?", strftime_now=lambda _: "06 Jul 2024")


def test_a_fixed_template_takes_a_new_date_and_one_without_a_clock_stays():
    once = fix_date("{{ strftime_now('%Y') }}", DATE)
    assert rendered(fix_date(once, datetime.date(2031, 1, 1))) == "2031"
    assert fix_date("{{ messages }}", DATE) == "{{ messages }}" and not reads_clock("{{ messages }}")
    several = fix_date({"default": "{{ strftime_now('%d') }}", "tools": "x"}, DATE)
    assert rendered(several["default"]) == "06" and several["tools"] == "x" and reads_clock(several)


def test_a_date_must_be_one():
    assert parse_date("2024-07-06") == DATE
    with pytest.raises(ValueError, match="expected a date such as 2026-01-01, got 'today'"):
        parse_date("today")


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_llava, tiny_llm])
def test_prompts_of_a_template_with_a_clock_show_the_date_of_the_spec(tmp_path, make):
    folder = make(tmp_path / "m")
    plain = hf_vlm(ModelContext("m", folder))
    template = "{{ strftime_now('%d %b %Y') }} " + plain.template
    question = messages("What ?", n_images=not plain.text_only)
    model = loaded_model(folder, template=template, date="2024-07-06")
    assert model.render(question) == "06 Jul 2024 " + plain.render(question)
    assert model.facts["date"] == "2024-07-06" and "date" not in plain.facts
    other = hf_vlm(ModelContext("m", folder), template=template, date="2024-07-07")
    assert other.digest != model.digest and hf_vlm(ModelContext("m", folder), date="2024-07-07").digest == plain.digest
    assert hf_vlm(ModelContext("m", folder), template=template).render(question).startswith("01 Jan 2026 ")
    with pytest.raises(ModelError, match="model 'm': date: expected a date such as 2026-01-01, got 'now'"):
        hf_vlm(ModelContext("m", folder), date="now")


def test_text_only_models_are_given_strings():
    assert as_text(messages("Why?", n_images=0)) == [{"role": "user", "content": "Why?"}]
    with pytest.raises(ValueError, match="cannot be shown an image"):
        as_text(messages("Why?"))
