"""Real clients on a real Vela cause each fault. Within 5 s after the rule's window, the console names the cause first.

Two rules have no fault here: `stalled` would need a broker that is broken inside, and the window of `oldest_segment` is
an hour.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pulsar
import pytest

from console.diagnosis.diagnose import NOTICES, RULES
from pipeline.jobs import offload
from tests.support import faults
from tests.support.faults import Place, numbered
from tests.support.offloading import Silent, job_request
from tests.support.raw_pulsar import RawPulsar
from vela.wire.binary import commands

WINDOWS_S = {rule.id: rule.window_s for rule in RULES}
SHOWN_AFTER_S = 5.0  # after the end of the rule's window
KEY_SHARED, FAILOVER = pulsar.ConsumerType.KeyShared, pulsar.ConsumerType.Failover


def consumer_limit(place: Place) -> None:
    place.publish(numbered(1))
    place.set_policy("max_unacked_per_consumer", 5)
    place.subscribe("worker")
    place.publish(numbered(20))


def subscription_limit(place: Place) -> None:
    place.publish(numbered(1))
    place.set_policy("max_unacked_per_subscription", 5)
    place.subscribe("worker")
    place.publish(numbered(20))


def silent_active(place: Place) -> None:
    place.subscribe("a", type_=FAILOVER, queue=10)
    place.subscribe("b", type_=FAILOVER, queue=10)
    place.publish(numbered(100))


def blocked_key(place: Place) -> None:
    place.subscribe("first", type_=KEY_SHARED)
    place.publish(numbered(100), keys=50)
    place.has_in_flight(100)
    place.subscribe("second", type_=KEY_SHARED)
    place.publish(numbered(100), keys=50)


def ack_hole(place: Place) -> None:
    consumer = place.subscribe("worker")
    place.publish(numbered(101))
    messages = [consumer.receive(20_000) for _ in range(101)]
    for message in messages:
        if message.data() != b"0":
            consumer.acknowledge(message)


def kept_unacked(place: Place) -> None:
    consumer = place.subscribe("worker")
    place.publish(numbered(5))
    consumer.receive(20_000)


def only_delayed(place: Place) -> None:
    place.subscribe("worker")
    place.publish(numbered(5), deliver_at=int((time.time() + 3600) * 1000))


def zero_queue_batch(place: Place) -> None:
    peer = place.raw_consumer()
    peer.tell(commands.flow(1, 1))
    place.publish_batch(5)


def incompatible_client(place: Place) -> None:
    peer = place.raw_consumer(protocol_version=3)
    peer.tell(commands.flow(1, 10))
    place.publish_batch(5)
    peer.until_closed()


def not_reading(place: Place) -> None:
    peer: RawPulsar = place.raw_consumer()
    peer.tell(commands.flow(1, 10_000))
    place.publish([b"x" * 1_000_000] * 40)


def dispatch_rate(place: Place) -> None:
    consumer = place.subscribe("worker")
    place.publish(numbered(1))
    place.set_policy("subscription_dispatch_rate_messages", 2)
    place.in_background(lambda: consumer.acknowledge(consumer.receive(500)))
    place.publish(numbered(200))


def too_slow(place: Place) -> None:
    consumer = place.subscribe("worker")
    place.publish(numbered(500))

    def turn() -> None:
        consumer.acknowledge(consumer.receive(500))
        time.sleep(0.1)  # the work of a slow consumer

    def produce() -> None:
        producer.send(b"more")
        time.sleep(0.02)

    producer = place.client.create_producer(place.full_name, batching_enabled=False)
    place.in_background(turn)
    place.in_background(produce)


def database_blocked(place: Place) -> None:
    place.subscribe("worker")
    stranger = place.database(autocommit=False)
    # Under this lock, pages can still read the table.
    stranger.execute("LOCK TABLE vela_consumer_session IN SHARE ROW EXCLUSIVE MODE")
    place.publish(numbered(1))


def log_gap(place: Place) -> None:
    place.subscribe("worker").close()
    place.publish(numbered(5))
    place.act("unload", subscription="")
    with place.database() as connection:
        row = connection.execute(
            "SELECT l.id, l.segment_id FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id"
            " WHERE t.name = %s AND l.segment_id IS NOT NULL ORDER BY l.id LIMIT 1",
            (place.full_name,),
        ).fetchone()
        assert row is not None
        connection.execute(
            f"DELETE FROM vela_entry_{row[1]} WHERE ledger_id = %s AND entry_id = 2", (row[0],)
        )
    place.subscribe("worker")


def unreadable_log(place: Place) -> None:
    place.subscribe("worker").close()
    place.set_policy("ledger_min_age_ms", 0)
    place.set_policy("ledger_max_entries", 5)
    place.publish(numbered(6))  # the first five are in a sealed ledger
    files = place.vela.data_dir / "offload"
    moved = offload.run(
        job_request(place.vela.database_url, files.as_uri(), place.topic), Silent(), lambda: None
    )
    assert moved["attached"] == 1
    place.act("unload", subscription="")
    away = files.rename(files.with_name("offload-away"))
    place.stack.callback(away.rename, files)
    place.subscribe("worker")


def backlog_quota(place: Place) -> None:
    place.subscribe("worker").close()
    place.publish(numbered(5))
    place.set_policy("backlog_quota_bytes", 10)


def dead_letters(place: Place) -> None:
    place.subscribe("worker")
    place.publish(numbered(3), topic=f"{place.full_name}-billing-DLQ")


def long_transaction(place: Place) -> None:
    place.subscribe("worker")
    place.database(autocommit=False).execute("SELECT 1")


def stopped(name: str) -> Callable[[Place], None]:
    """Return a fault that pauses a process of Vela (SIGSTOP) until the test ends."""

    def start(place: Place) -> None:
        place.subscribe("worker")
        pid = place.vela.pids()[name]
        os.kill(pid, signal.SIGSTOP)
        place.stack.callback(os.kill, pid, signal.SIGCONT)

    return start


FAULTS: dict[str, Callable[[Place], None]] = {
    "no_consumer": faults.no_consumer,
    "paused": faults.paused,
    "no_permits": faults.no_permits,
    "hoarder": faults.hoarder,
    "poison": faults.poison,
    "consumer_limit": consumer_limit,
    "subscription_limit": subscription_limit,
    "silent_active": silent_active,
    "blocked_key": blocked_key,
    "ack_hole": ack_hole,
    "kept_unacked": kept_unacked,
    "only_delayed": only_delayed,
    "zero_queue_batch": zero_queue_batch,
    "incompatible_client": incompatible_client,
    "not_reading": not_reading,
    "dispatch_rate": dispatch_rate,
    "too_slow": too_slow,
    "backlog_quota": backlog_quota,
    "dead_letters": dead_letters,
    "log_gap": log_gap,
    "unreadable_log": unreadable_log,
    "database_blocked": database_blocked,
    "long_transaction": long_transaction,
    "timers_silent": stopped("beat"),
    "no_broker": stopped("broker"),
}
BESIDE_THE_CAUSE = {rule.id for rule in NOTICES}


@pytest.mark.parametrize("rule", FAULTS)
def test_the_cause_is_named(rule: str, place: Place) -> None:
    FAULTS[rule](place)
    place.waits_for(rule, timeout_s=WINDOWS_S[rule] + SHOWN_AFTER_S, leads=rule not in BESIDE_THE_CAUSE)
