"""Producers that wait for exclusive access."""

from __future__ import annotations

from unittest.mock import AsyncMock, patch

import psycopg

from broker.core.errors import PersistenceFailed
from broker.core.producers.access import AccessMode
from broker.storage.topics import topics as store
from tests.support.broker_harness import eventually
from tests.support.memory_broker import memory_broker

WAIT = AccessMode.WAIT_FOR_EXCLUSIVE


async def test_a_waiting_producer_is_closed_if_the_database_refuses_its_epoch() -> None:
    refused = psycopg.errors.QueryCanceled("canceling statement due to user request")
    stored = AsyncMock(side_effect=[True, refused, True])
    with patch.object(store, "set_producer_epoch", stored):
        async with memory_broker() as run:
            first = await run.producer(name="a", access_mode=WAIT)
            second = await run.producer(name="b", access_mode=WAIT)
            third = await run.producer(name="c", access_mode=WAIT)
            waiting = third.producer
            assert first.producer is not None
            assert waiting is not None
            first.producer.detach()
            await eventually(lambda: second.closed, "the second producer to be told")
            assert isinstance(second.closed[0], PersistenceFailed)
            await eventually(lambda: waiting.is_ready, "the third producer to get the topic")
