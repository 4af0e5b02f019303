"""The fixed texts of the broker and the pipeline that pages show, for translators.

The broker writes English only. Pages translate these texts where they show them.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.acts.alerts import TEXTS
from broker.topics.policies_in_force import policy_texts
from pipeline.jobs.catalogue import JOBS

__all__ = ["texts_of_the_broker"]


def texts_of_the_broker() -> Iterator[str]:
    """Yield each text as it is in the source."""
    yield from policy_texts()
    yield from TEXTS
    for job in JOBS.values():
        yield job.summary
        yield from (option.doc for option in job.options)
