"""The fixed English texts of the broker and the pipeline, for translators."""

from __future__ import annotations

from collections.abc import Iterator

from broker.acts.alerts import TEXTS
from broker.topics.policies_in_force import policy_texts
from pipeline.jobs.catalogue import JOBS

__all__ = ["texts_of_the_broker"]


def texts_of_the_broker() -> Iterator[str]:
    """Yield each English text."""
    yield from policy_texts()
    yield from TEXTS
    for job in JOBS.values():
        yield job.summary
        yield from (option.doc for option in job.options)
