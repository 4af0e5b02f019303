"""A diagnosis in the reader's language. Its rules know no language but English, and no Django."""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext, ngettext

from console.diagnosis.findings import Cure, Evidence, Finding
from console.diagnosis.said import Said

__all__ = ["spoken", "spoken_finding"]


def spoken(text: str) -> str:
    """Return a text of a diagnosis in the language of the reader. A name or another plain text stays as it is."""
    if not isinstance(text, Said):
        return text
    translated = (
        gettext(text.message) if text.many is None else ngettext(text.message, text.many, text.number)
    )
    return translated.format_map(
        {name: spoken(value) if isinstance(value, str) else value for name, value in text.values.items()}
    )


def spoken_finding(finding: Finding) -> Finding:
    """Return a finding with its sentence, evidence and cures in the language of the reader."""
    return replace(
        finding,
        sentence=spoken(finding.sentence),
        evidence=tuple(_spoken_evidence(each) for each in finding.evidence),
        cures=tuple(_spoken_cure(each) for each in finding.cures),
    )


def _spoken_evidence(evidence: Evidence) -> Evidence:
    value = evidence.value
    return replace(
        evidence, label=spoken(evidence.label), value=spoken(value) if isinstance(value, str) else value
    )


def _spoken_cure(cure: Cure) -> Cure:
    return replace(cure, text=spoken(cure.text))
