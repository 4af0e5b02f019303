"""Texts of a diagnosis in English, and in the language of a reader."""

from __future__ import annotations

import json

import pytest
from django.utils import translation

from console.words.said import Said, said, said_many, spoken

CATALOGUE = {
    "{name} waits for {what}": "{what}：{name} 在等",
    "the broker": "代理",
    "{n} entry of {name} waits": "{name} 有 {n} 个条目",
}


@pytest.fixture
def in_another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language that knows a few messages."""
    monkeypatch.setattr("console.words.said.gettext", lambda text: CATALOGUE[text])
    monkeypatch.setattr("console.words.said.ngettext", lambda one, _many, _n: CATALOGUE[one])


def test_a_said_text_is_the_english_text_wherever_a_string_is_taken() -> None:
    text = said("{name} waits for {what}", name="worker {1}", what=said("the broker"))
    assert text == "worker {1} waits for the broker"
    assert json.dumps({"sentence": text}) == '{"sentence": "worker {1} waits for the broker"}'
    assert isinstance(text, str)


@pytest.mark.parametrize(
    ("n", "english"), [(1, "1 entry of a waits"), (0, "0 entries of a wait"), (7, "7 entries of a wait")]
)
def test_a_count_chooses_singular_or_plural(n: int, english: str) -> None:
    assert said_many("{n} entry of {name} waits", "{n} entries of {name} wait", n=n, name="a") == english


def test_a_text_is_translated_into_the_language_of_its_reader(in_another_language: None) -> None:
    text = said("{name} waits for {what}", name="worker {1}", what=said("the broker"))
    assert spoken(text) == "代理：worker {1} 在等"
    many = said_many("{n} entry of {name} waits", "{n} entries of {name} wait", n=7, name="a")
    assert spoken(many) == "a 有 7 个条目"


def test_a_name_is_not_translated(in_another_language: None) -> None:
    assert spoken("the broker") == "the broker"
    assert not isinstance(spoken("the broker"), Said)


def test_a_diagnosis_is_translated_into_chinese() -> None:
    with translation.override("zh-hans"):
        assert spoken(said("Start a consumer.")) == "请启动一个消费者。"
    assert spoken(said("Start a consumer.")) == "Start a consumer."
