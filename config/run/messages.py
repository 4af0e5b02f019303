"""`make messages`: extract the console's texts from the source, and bring the catalogues of translations up to date."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

from config.environment import PROJECT_DIR
from console.words.broker_texts import texts_of_the_broker

__all__ = ["LOCALES", "catalogue_of", "compiled", "extracted", "path_of"]

LOCALES: Final = ("zh_Hans",)
_WIDTH: Final = 110  # of a line of the catalogue
# The functions that translate, and which of their arguments are texts; "c" marks a context.
_KEYWORDS: Final = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
    "said": None,
    "said_many": (1, 2),
}


def extracted() -> Catalog:
    """Return every text that the console translates, with the files in which it occurs and without translations."""
    catalogue = Catalog(project="Vela", charset="utf-8", fuzzy=False)
    for path in sorted((PROJECT_DIR / "templates").rglob("*.html")):
        _add(catalogue, path, _python_of(path.read_text(encoding="utf-8")))
    for path in sorted((PROJECT_DIR / "console").rglob("*.py")):
        _add(catalogue, path, path.read_text(encoding="utf-8"))
    for text in texts_of_the_broker():
        catalogue.add(text, locations=[("console/words/broker_texts.py", 0)])
    return catalogue


def path_of(locale: str) -> Path:
    """Return the path of a catalogue. The compiled catalogue is beside it."""
    return PROJECT_DIR / "console/locale" / locale / "LC_MESSAGES/django.po"


def catalogue_of(locale: str) -> Catalog:
    """Return the translations as they are in the repository."""
    with path_of(locale).open("rb") as file:
        return read_po(file, locale=locale)


def compiled(catalogue: Catalog) -> bytes:
    """Return the file that Django reads. Fuzzy translations are left out."""
    file = io.BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def main() -> int:
    """Update the catalogues from the source, compile them, and name the texts that still need a translation."""
    texts = extracted()
    for locale in LOCALES:
        catalogue = catalogue_of(locale)
        catalogue.update(texts, no_fuzzy_matching=True, update_creation_date=False)
        catalogue.obsolete.clear()
        catalogue.msgid_bugs_address = catalogue.last_translator = "Vela"
        with path_of(locale).open("wb") as file:
            write_po(file, catalogue, width=_WIDTH, include_lineno=False)
        path_of(locale).with_suffix(".mo").write_bytes(compiled(catalogue))
        _report(catalogue)
    return 0


def _report(catalogue: Catalog) -> None:
    missing = [message for message in catalogue if message.id and not _is_translated(message)]
    for message in missing:
        sys.stdout.write(f"no translation: {message.id!r}\n")
    sys.stdout.write(f"{catalogue.locale}: {len(catalogue)} texts, {len(missing)} without a translation\n")


def _add(catalogue: Catalog, path: Path, source: str) -> None:
    name = str(path.relative_to(PROJECT_DIR))
    found = extract("python", io.BytesIO(source.encode()), keywords=_KEYWORDS, options={"encoding": "utf-8"})
    for line, text, _comments, context in found:
        catalogue.add(text, locations=[(name, line)], context=context)


def _python_of(template: str) -> str:
    """Return calls of gettext for the tags of a template, without indentation, which would be an error in Python."""
    return "\n".join(line.strip() for line in templatize(template).splitlines())


def _is_translated(message: Message) -> bool:
    texts = message.string or ""
    return bool(texts) if isinstance(texts, str) else all(texts)


if __name__ == "__main__":
    sys.exit(main())
