"""A producer's queue against a model: whatever links and clocks do, messages are stored and answered once, in order.

Only a message that is refused before it is sent is answered out of turn, at once.

Over 400 lines: one model; every rule changes the same queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import model_settings
from vela.aio.producers.send_answers import SendFuture
from vela.aio.producers.send_queue import SendQueue
from vela.core.producing import send_frames
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.send_frames import ProducerIdentity
from vela.errors import (
    CryptoError,
    InvalidConfiguration,
    MessageTooBig,
    NotAllowedError,
    ProducerBlockedQuotaExceededException,
    ProducerQueueIsFull,
    Timeout,
    UnknownError,
    VelaError,
)
from vela.message import MessageId
from vela.options import BatchingType
from vela.wire.entry import decode_messages, parse_header

IDENTITY = ProducerIdentity(name="p", max_message_bytes=100_000)
REFUSED = NotAllowedError("by the model")
NO_ROOM = ProducerBlockedQuotaExceededException("by the model")
# A message with one of these errors is never sent, and gets it at once, whatever waits before it.
AT_ONCE = (ProducerQueueIsFull, MessageTooBig)
PERHAPS_STORED = (Timeout, ProducerBlockedQuotaExceededException)
SEND_TIMEOUT_MS = 1000

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["plain", "key", "delayed", "big"])),
        st.tuples(st.just("link"), st.booleans()),
        st.tuples(st.just("store"), st.integers(1, 4)),
        st.tuples(st.just("answer"), st.integers(1, 4)),
        st.tuples(st.just("refuse"), st.none()),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
        st.tuples(st.just("seal"), st.none()),
        st.tuples(st.just("wait_s"), st.sampled_from([0.3, 0.8, 2.0])),
        st.tuples(st.just("fail"), st.none()),
    ),
    max_size=40,
)


class HastyLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock that the test advances, so that no test waits."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Model:
    """A queue, and a broker that deduplicates and loses its answers with the link."""

    def __init__(self, options: ProducerOptions) -> None:
        self.queue = SendQueue("persistent://a/b/t", 1, options)
        self.futures: list[SendFuture] = []
        self.completed: list[int] = []
        self.cancelled: set[int] = set()
        self.arrived: list[bytes] = []  # entries that came over the link and are not processed yet
        # Sequence id and entry id of receipts that are not delivered yet.
        self.receipts: list[tuple[int, int]] = []
        self.stored: list[int] = []
        self.highest = -1
        self.entries = 0

    def put(self, kind: str, padding: bytes = b"") -> None:
        number = len(self.futures)
        future: SendFuture = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self.completed.append(number))
        self.futures.append(future)
        payload = b"%d" % number + padding
        if kind == "plain":
            self.queue.put_plain(payload, future)
        elif kind == "key":
            self.queue.put(Outgoing(payload, key="k"), future)
        elif kind == "big":
            self.queue.put(Outgoing(payload + bytes(IDENTITY.max_message_bytes)), future)
        else:
            self.queue.put(Outgoing(payload, deliver_at_ms=1), future)

    def link(self, is_up: bool) -> None:
        self.queue.detach()
        self.arrived, self.receipts = [], []
        if is_up:
            self.queue.attach(lambda _head, entry: self.arrived.append(entry), IDENTITY, -1)

    def store(self, count: int) -> None:
        for entry in self.arrived[:count]:
            header = parse_header(entry)
            if header.sequence_id > self.highest:
                self.highest = header.highest_sequence_id or header.sequence_id
                messages = decode_messages(entry, max_message_bytes=1000)
                self.stored += [int(message.payload) for message in messages]
            self.receipts.append((header.sequence_id, self.entries))
            self.entries += 1
        del self.arrived[:count]

    def answer(self, count: int) -> None:
        for sequence_id, entry_id in self.receipts[:count]:
            self.queue.receipt(sequence_id, 7, entry_id)
        del self.receipts[:count]

    def refuse(self) -> None:
        """Answer the stored sends, then refuse the next one."""
        self.answer(len(self.receipts))
        if self.arrived:
            header = parse_header(self.arrived.pop(0))
            if header.sequence_id > self.highest:
                self.queue.refused(header.highest_sequence_id or header.sequence_id, REFUSED)
            else:
                self.queue.receipt(header.sequence_id, -1, -1)

    def cancel(self, back: int) -> None:
        if back < len(self.futures) and not self.futures[-1 - back].done():
            self.futures[-1 - back].cancel()
            self.cancelled.add(len(self.futures) - 1 - back)

    def step(self, what: str, how: Any) -> None:
        match what:
            case "put":
                self.put(how)
            case "link":
                self.link(how)
            case "store":
                self.store(how)
            case "answer":
                self.answer(how)
            case "refuse":
                self.refuse()
            case "cancel":
                self.cancel(how)
            case "wait_s":
                loop = asyncio.get_running_loop()
                assert isinstance(loop, HastyLoop)
                loop.ahead_s += how
            case "fail":
                self.queue.fail(NO_ROOM)
            case _:
                self.queue.seal()


@model_settings(examples=300)
@given(STEPS, st.booleans(), st.booleans())
def test_messages_are_sent_in_order_and_once_over_any_connections_and_clocks(
    steps: list[tuple[str, Any]], batching: bool, blocks: bool
) -> None:
    async def run() -> None:
        options = ProducerOptions(
            batching_enabled=batching,
            batching_max_messages=3,
            batching_max_publish_delay_ms=60_000,
            max_pending_messages=5,
            block_if_queue_full=blocks,
            send_timeout_millis=SEND_TIMEOUT_MS,
        )
        model = Model(options)
        for what, how in steps:
            model.step(what, how)
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # run the callbacks of futures that a timer has completed
        flushing = asyncio.ensure_future(model.queue.flush())
        model.link(True)
        while model.queue.waiting:
            model.queue.seal()
            model.store(9)
            model.answer(9)
            await asyncio.sleep(0)
        await asyncio.gather(flushing, return_exceptions=True)
        check(model, blocks)

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(run())


def check(model: Model, blocks: bool) -> None:
    errors: dict[int, VelaError] = {}
    for number, future in enumerate(model.futures):
        if not future.cancelled() and (error := future.exception()):
            assert isinstance(error, VelaError)
            errors[number] = error
    kinds = {type(error) for error in errors.values()}
    assert kinds <= {NotAllowedError, MessageTooBig, *PERHAPS_STORED, *(() if blocks else AT_ONCE)}
    assert len(model.completed) == len(model.futures)
    refused = {number for number, error in errors.items() if isinstance(error, AT_ONCE)}
    in_turn = [number for number in model.completed if number not in refused | model.cancelled]
    assert in_turn == sorted(in_turn)
    # Every message that was answered with an id is stored, once and in order. Messages that were cancelled, or given up
    # without an answer, may be stored or not.
    answered = {number for number in in_turn if number not in errors}
    unknown = {number for number, error in errors.items() if isinstance(error, PERHAPS_STORED)}
    assert model.stored == sorted(set(model.stored))
    assert answered <= set(model.stored) <= answered | model.cancelled | unknown
    assert model.queue.waiting == 0


def end_by_receipts(model: Model) -> None:
    while model.queue.waiting:
        model.queue.seal()
        model.store(9)
        model.answer(9)


def end_by_refusals(model: Model) -> None:
    while model.queue.waiting:
        model.queue.seal()
        model.refuse()


ENDS: dict[str, Callable[[Model], None]] = {
    "receipts": end_by_receipts,
    "refusals": end_by_refusals,
    "timeouts": lambda model: model.step("wait_s", 2.0),
    "a failure": lambda model: model.queue.fail(NO_ROOM),
}


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_taken_messages_complete_in_the_order_of_the_calls(end: str, batching: bool) -> None:
    """Some messages were sent, some are gathered in a batch, and some wait in line, all at the same time."""

    async def run() -> None:
        options = ProducerOptions(
            batching_enabled=batching,
            batching_max_messages=2,
            batching_max_publish_delay_ms=60_000,
            max_pending_messages=5,
            block_if_queue_full=True,
            send_timeout_millis=SEND_TIMEOUT_MS,
        )
        model = Model(options)
        model.link(True)
        for kind in ("plain", "plain", "plain", "key", "plain", "plain", "big", "plain"):
            model.put(kind)
        while model.queue.waiting:
            ENDS[end](model)
            for _ in range(3):
                await asyncio.sleep(0)
        late = {6} if end != "a failure" else set()  # too large, so it is refused when it leaves the line
        kinds = [type(future.exception()) for future in model.futures]
        assert len({kind for number, kind in enumerate(kinds) if number not in late}) == 1
        assert [number for number in model.completed if number not in late] == [
            number for number in range(8) if number not in late
        ]

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(run())


async def test_a_message_refused_before_sending_does_not_wait_for_sent_ones() -> None:
    model = Model(ProducerOptions(max_pending_messages=2))
    model.link(True)
    model.put("plain")
    model.put("big")
    model.put("plain")
    model.put("plain")
    await asyncio.sleep(0)
    assert model.completed == [1, 3]
    assert isinstance(model.futures[1].exception(), MessageTooBig)
    assert isinstance(model.futures[3].exception(), ProducerQueueIsFull)
    end_by_receipts(model)
    await asyncio.sleep(0)
    assert model.completed == [1, 3, 0, 2]


async def test_a_batch_that_cannot_be_encrypted_lets_the_line_move_in_order() -> None:
    broken = True

    def encrypt(metadata: Any, payload: bytes) -> bytes:
        if broken:
            raise RuntimeError("no key")
        return payload

    options = ProducerOptions(
        batching_enabled=True,
        batching_max_allowed_size_in_bytes=20,  # room for one message
        max_pending_messages=3,
        block_if_queue_full=True,
        encrypt=encrypt,
    )
    model = Model(options)
    for _ in range(7):
        model.put("plain", padding=b"-------")
    model.link(True)
    for _ in range(10):
        await asyncio.sleep(0)
        model.queue.seal()
    assert [type(future.exception()) for future in model.futures] == [CryptoError] * 7
    assert model.completed == list(range(7))
    broken = False
    model.put("plain")
    model.queue.seal()
    model.store(1)
    model.answer(1)
    assert isinstance(await model.futures[-1], MessageId)


@pytest.mark.parametrize("end", ["refusals", "timeouts", "a failure"])
def test_a_flush_fails_with_a_message_whose_first_chunk_fails(end: str) -> None:
    async def run() -> None:
        model = Model(ProducerOptions(chunking_enabled=True, send_timeout_millis=SEND_TIMEOUT_MS))
        model.link(True)
        model.put("big")
        flushing = asyncio.ensure_future(model.queue.flush())
        await asyncio.sleep(0)
        ENDS[end](model)
        outcomes = await asyncio.gather(flushing, model.futures[0], return_exceptions=True)
        assert isinstance(outcomes[1], VelaError)
        assert outcomes[0] is outcomes[1]

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(run())


async def test_a_flush_in_line_fails_with_a_message_that_was_sent_before_it() -> None:
    model = Model(ProducerOptions(max_pending_messages=1, block_if_queue_full=True))
    model.link(True)
    model.put("plain")
    model.put("plain")
    flushing = asyncio.ensure_future(model.queue.flush())
    await asyncio.sleep(0)
    model.refuse()
    end_by_receipts(model)
    with pytest.raises(NotAllowedError):
        await flushing


@pytest.mark.parametrize("batching", [False, True])
async def test_a_flush_in_line_fails_with_a_message_that_cannot_be_sent(batching: bool) -> None:
    model = Model(
        ProducerOptions(batching_enabled=batching, max_pending_messages=1, block_if_queue_full=True)
    )
    model.link(True)
    for kind in ("plain", "big", "plain"):
        model.put(kind)
    flushing = asyncio.ensure_future(model.queue.flush())
    await asyncio.sleep(0)
    end_by_receipts(model)
    with pytest.raises(MessageTooBig):
        await flushing
    assert isinstance(model.futures[1].exception(), MessageTooBig)


async def test_a_flush_in_line_takes_no_room() -> None:
    model = Model(ProducerOptions(max_pending_messages=2))
    model.put("plain")
    flushing = asyncio.ensure_future(model.queue.flush())
    await asyncio.sleep(0)
    assert model.queue.waiting == 1
    model.put("plain")
    assert model.queue.waiting == 2
    model.link(True)
    end_by_receipts(model)
    await flushing
    assert [each.exception() for each in model.futures] == [None, None]
    assert model.queue.waiting == 0


async def test_a_flush_does_not_fail_with_a_later_message() -> None:
    model = Model(ProducerOptions(max_pending_messages=2, block_if_queue_full=True))
    model.link(True)
    model.put("plain")
    flushing = asyncio.ensure_future(model.queue.flush())
    await asyncio.sleep(0)
    model.put("big")
    end_by_receipts(model)
    await flushing
    assert isinstance(model.futures[1].exception(), MessageTooBig)


@pytest.mark.parametrize("batching", [False, True])
async def test_only_a_failure_to_encrypt_is_a_crypto_error(batching: bool) -> None:
    def encrypt(metadata: Any, payload: bytes) -> bytes:
        raise KeyError("no such key")

    model = Model(ProducerOptions(batching_enabled=batching, encrypt=encrypt))
    model.link(True)
    model.put("plain")
    model.queue.seal()
    with pytest.raises(CryptoError, match=r"could not be encrypted: KeyError.*no such key") as caught:
        await model.futures[0]
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("cause", "kind"), [(TypeError("bad field"), InvalidConfiguration), (MemoryError("full"), UnknownError)]
)
@pytest.mark.parametrize("batching", [False, True])
async def test_another_failure_is_reported_with_its_cause(
    cause: Exception, kind: type[VelaError], batching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> bytes:
        raise cause

    monkeypatch.setattr(send_frames, "compress_payload", fails)
    model = Model(ProducerOptions(batching_enabled=batching))
    model.link(True)
    model.put("plain")
    model.queue.seal()
    with pytest.raises(kind, match=str(cause)) as caught:
        await model.futures[0]
    assert type(caught.value) is kind
    assert caught.value.__cause__ is cause
    assert "encrypt" not in str(caught.value)


async def test_statistics_and_numbers_follow_the_answers() -> None:
    model = Model(ProducerOptions(initial_sequence_id=9))
    model.link(True)
    model.put("plain")
    model.put("plain")
    assert model.queue.waiting == 2
    model.store(2)
    model.answer(1)
    assert (model.queue.last_sequence_id, model.queue.waiting) == (10, 1)
    model.refuse()
    assert (model.queue.last_sequence_id, model.queue.counters.messages) == (11, 2)
    with pytest.raises(ValueError, match="least"):
        ProducerOptions(max_pending_messages=-1)


HUGE: list[dict[str, Any]] = [
    {"key": "k" * 200_000},
    {"key": "\u20ac" * 40_000},
    {"ordering_key": bytes(200_000)},
    {"properties": {"name": "v" * 200_000}},
    {"payload": bytes(200_000)},
]


@pytest.mark.parametrize("batching_type", BatchingType)
@pytest.mark.parametrize("huge", HUGE, ids=lambda huge: next(iter(huge)))
async def test_a_message_that_cannot_fit_fails_by_itself(
    huge: dict[str, Any], batching_type: BatchingType
) -> None:
    options = ProducerOptions(
        batching_enabled=True, batching_type=batching_type, batching_max_allowed_size_in_bytes=1_000_000
    )
    queue = SendQueue("persistent://a/b/t", 1, options)
    arrived: list[bytes] = []
    queue.attach(lambda _head, entry: arrived.append(entry), IDENTITY, -1)
    loop = asyncio.get_running_loop()
    before, too_big, after, plain = [loop.create_future() for _ in range(4)]
    queue.put(Outgoing(b"before", key="a"), before)
    queue.put(Outgoing(**{"payload": b"", **huge}), too_big)
    queue.put(Outgoing(b"after", key="a"), after)
    queue.put_plain(b"plain", plain)
    queue.seal()
    with pytest.raises(MessageTooBig):
        await too_big
    assert not any(each.done() for each in (before, after, plain))
    payloads = [
        bytes(message.payload)
        for entry in arrived
        for message in decode_messages(entry, max_message_bytes=100_000)
    ]
    assert payloads == [b"before", b"after", b"plain"]
