"""The benchmark names what happened (such as a checkpoint) while a slow message was on its way."""

from __future__ import annotations

from bench.load.disturbances import Disturbances, Happened


def test_a_message_names_every_event_that_happened_while_it_was_on_its_way() -> None:
    found = Disturbances(
        windows=[
            Happened(what="checkpoint", began_s=10.0, ended_s=11.0),
            Happened(what="vacuum", began_s=10.5, ended_s=12.0),
        ]
    )
    assert found.what_at(9.0, 9.9) == frozenset()
    assert found.what_at(9.0, 10.1) == {"checkpoint"}  # sent before the checkpoint, and not received yet
    assert found.what_at(10.6, 10.7) == {"checkpoint", "vacuum"}
    assert found.what_at(11.5, 11.5) == {"vacuum"}
