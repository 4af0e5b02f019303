"""The console names the cause of the five commonest faults, all started at once on topics of their own."""

from __future__ import annotations

from contextlib import ExitStack

from tests.support import faults
from tests.support.faults import Place
from tests.support.vela import VelaProcess

FAULTS = (faults.no_permits, faults.hoarder, faults.poison, faults.no_consumer, faults.paused)
SHOWN_WITHIN_S = 40.0  # the longest window is 10 s; the machine may be busy


def test_the_cause_of_each_fault_is_named(shared_vela: VelaProcess) -> None:
    with ExitStack() as stack:
        places = [Place(vela=shared_vela, topic=f"fault-{fault.__name__}", stack=stack) for fault in FAULTS]
        for place, fault in zip(places, FAULTS, strict=True):
            fault(place)
        found = {
            fault.__name__: place.waits_for(fault.__name__, timeout_s=SHOWN_WITHIN_S)
            for place, fault in zip(places, FAULTS, strict=True)
        }
    assert "worker was the last one: its client closed it" in found["no_consumer"]["sentence"]
    assert "admin paused it" in found["paused"]["sentence"]
    assert (
        "greedy has 100 messages in its queue, while idle has nothing to do" in found["hoarder"]["sentence"]
    )
    assert "skip_one" in [cure["act"] for cure in found["poison"]["cures"]]
