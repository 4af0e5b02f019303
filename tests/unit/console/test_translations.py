"""The catalogue of the console's Chinese texts is complete, and in step with the source and with its compiled file."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest
from babel.messages.catalog import Catalog, Message

from config.run.messages import LOCALES, catalogue_of, compiled, extracted, path_of

PLACEHOLDER: Final = re.compile(r"%\(\w+\)[sd]|%%|\{\w*(?:![rs])?(?::[^}]*)?\}")
MARKUP: Final = re.compile(r"<[^>]*>|&[#\w]+;|`[^`]*`|\"")
CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")
LATIN_PUNCTUATION: Final = re.compile(r"[\u4e00-\u9fff][,:;?!.()]|[,:;?!()][\u4e00-\u9fff]")
CROWDED: Final = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]")


def texts_of(message: Message) -> list[str]:
    """Return a message's English text and, if it has one, its English plural."""
    return [message.id] if isinstance(message.id, str) else [*message.id]


def translations_of(message: Message) -> list[str]:
    """Return a message's translations, one for each plural form of the language."""
    texts = message.string or ""
    return [texts] if isinstance(texts, str) else list(texts)


def key_of(message: Message) -> tuple[str | None, str | tuple[str, ...]]:
    """Return the key under which Django looks a message up."""
    return message.context, message.id if isinstance(message.id, str) else tuple(message.id)


@pytest.fixture(scope="module")
def source() -> Catalog:
    """The catalogue of the texts that the source contains."""
    return extracted()


@pytest.fixture(scope="module", params=LOCALES)
def locale(request: pytest.FixtureRequest) -> str:
    """Each language except English."""
    return str(request.param)


@pytest.fixture(scope="module")
def translated(locale: str) -> list[Message]:
    """The messages of the language's catalogue."""
    return [message for message in catalogue_of(locale) if message.id]


def test_every_text_is_in_the_catalogue_and_nothing_else(source: Catalog, translated: list[Message]) -> None:
    asked = {key_of(message) for message in source if message.id}
    known = {key_of(message) for message in translated}
    assert (asked - known, known - asked) == (set(), set()), "run make messages"


def test_every_text_is_translated(translated: list[Message]) -> None:
    assert [m.id for m in translated if m.fuzzy or not all(translations_of(m))] == []


def test_a_translation_keeps_placeholders_and_markup(translated: list[Message]) -> None:
    for kept in (PLACEHOLDER, MARKUP):
        wrong = [
            (message.id, translation)
            for message in translated
            for translation in translations_of(message)
            if Counter(kept.findall(translation)) != Counter(kept.findall(texts_of(message)[-1]))
        ]
        assert wrong == []


def test_chinese_texts_have_chinese_punctuation_and_no_crowded_words() -> None:
    wrong = []
    for message in catalogue_of("zh_Hans"):
        for translation in translations_of(message) if message.id else ():
            plain = PLACEHOLDER.sub("", MARKUP.sub("", translation))
            if LATIN_PUNCTUATION.search(plain) or CROWDED.search(plain):
                wrong.append((message.id, translation))
    assert wrong == []


def test_the_compiled_file_is_of_this_catalogue(locale: str) -> None:
    file = path_of(locale).with_suffix(".mo")
    assert file.read_bytes() == compiled(catalogue_of(locale)), "run make messages"
