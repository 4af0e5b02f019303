"""Pages and searches give the same answers when ledgers were moved to files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from broker.models import Ledger, LedgerFile
from console.queries import stores
from console.queries.database import fetch_entries
from console.queries.numbers import oldest_unacked_ms
from pipeline.errors import OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.rows import EntryRow
from pipeline.ledger_files.storage import FileStorage
from pipeline.ledger_files.writer import write_ledger
from tests.integration.console.messages import Written, write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

MIXED = "persistent://public/default/mixed"
PAGE = "/t/persistent/public/default/mixed"
QUERIES = (
    "",
    "start=oldest",
    "start=newest&limit=3",
    "start=oldest&key=k1",
    "start=newest&key=k1",
    "start=oldest&contains=17",
    "start=time&at=2023-11-14T22:13:25Z&order=newer",
    "start=time&at=2023-11-14T22:13:25Z",
)


@pytest.fixture
def files_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty folder from which the console reads ledger files."""
    files = LedgerFiles(tmp_path.as_uri(), cache_bytes=1 << 20)
    monkeypatch.setattr(stores, "_files", lambda: files)
    return tmp_path.as_uri()


@pytest.fixture
def mixed(db: None) -> Written:
    """Four ledgers of five entries: singles with keys, and some batches."""
    entries = [
        encode_batch(
            [
                OutgoingMessage(payload=json.dumps({"n": n, "at": at}).encode(), key=f"k{at % 3}")
                for at in (0, 1)
            ],
            producer_name="p",
            sequence_id=n,
            publish_time_ms=1,
        )
        if n % 7 == 0
        else encode_single(
            producer_name="p",
            sequence_id=n,
            publish_time_ms=1,
            payload=json.dumps({"n": n}).encode(),
            key=f"k{n % 3}",
        )
        for n in range(20)
    ]
    return write_log(MIXED, entries, ledger_entries=5)


def offload(ledger: Ledger, url: str) -> None:
    """Move a ledger's rows into a file, as the job and the broker do together."""
    name = f"{ledger.topic_id}/{ledger.pk}-x.parquet"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT entry_id, messages, flags, key_hash, deliver_at_ms, append_ms, cumulative_messages,"
            " cumulative_bytes, data FROM vela_entry WHERE ledger_id = %s ORDER BY entry_id",
            [ledger.pk],
        )
        rows = [EntryRow._make((*row[:-1], bytes(row[-1]))) for row in cursor.fetchall()]
        cursor.execute(f"DELETE FROM vela_entry_{ledger.segment_id} WHERE ledger_id = %s", [ledger.pk])
    write_ledger(FileStorage(url), name, rows, topic_id=ledger.topic_id, ledger_id=ledger.pk)
    file = LedgerFile.objects.create(
        name=name, topic_id=ledger.topic_id, ledger_id=ledger.pk, state="attached", write_id="x"
    )
    Ledger.objects.filter(pk=ledger.pk).update(file=file, segment=None)


def answers(client: Client) -> dict[str, list[str]]:
    """Return the positions of the messages that the browser finds for each query."""
    found = {}
    for query in QUERIES:
        response = client.get(f"{PAGE}/messages?{query}")
        assert response.status_code == 200, text_of(response)[:2000]
        found[query] = re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", response.content.decode())
    return found


def test_the_browser_finds_the_same_messages(operator: Client, mixed: Written, files_url: str) -> None:
    before = answers(operator)
    assert len(before["start=oldest"]) == 23
    assert 0 < len(before["start=oldest&key=k1"]) < 23
    for ledger in mixed.ledgers[:-1]:
        offload(ledger, files_url)
        assert answers(operator) == before


def without_clock(text: str) -> str:
    """Return a page's text without the time of day at its foot."""
    return re.sub(r"at \d\d:\d\d:\d\d", "", text)


def test_the_page_of_a_message_reads_the_file(operator: Client, mixed: Written, files_url: str) -> None:
    page = f"{PAGE}/m/{mixed.spot(8)}"
    before = without_clock(text_of(operator.get(page)))
    assert mixed.spot(8) in before
    offload(mixed.ledgers[1], files_url)
    assert without_clock(text_of(operator.get(page))) == before


def test_the_page_of_a_topic_says_which_ledgers_are_offloaded(
    operator: Client, mixed: Written, files_url: str
) -> None:
    offload(mixed.ledgers[1], files_url)
    page = operator.get(f"{PAGE}?tab=ledgers").content.decode()
    rows = re.findall(r"mono\">(\d+)</th>\s*<td>\s*(\w+)\s*</td>", page)
    states = {int(ledger_id): state for ledger_id, state in rows}
    assert states == {
        mixed.ledgers[0].pk: "sealed",
        mixed.ledgers[1].pk: "offloaded",
        mixed.ledgers[2].pk: "sealed",
        mixed.ledgers[3].pk: "open",
    }


def test_a_subscription_shows_its_next_messages_and_their_age(
    operator: Client, shop: Shop, files_url: str
) -> None:
    page = "/t/persistent/public/default/orders/s/billing"
    before = re.findall(r"/m/([0-9:]+)", operator.get(page).content.decode())
    assert before
    offload(shop.sealed, files_url)
    assert re.findall(r"/m/([0-9:]+)", operator.get(page).content.decode()) == before
    assert oldest_unacked_ms(shop.topic.pk, ["billing"]) == {("billing", -1): shop.sealed.last_append_ms}


def test_a_cursor_in_a_file_that_does_not_answer_is_not_called_trimmed(
    operator: Client, shop: Shop, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offload(shop.sealed, files_url)
    monkeypatch.setattr(stores, "_files", lambda: LedgerFiles("", cache_bytes=0))
    words = text_of(operator.get("/t/persistent/public/default/orders/s/billing"))
    assert "cannot be read now" in words
    assert "no longer stored" not in words


def test_files_that_do_not_answer_are_an_error_that_names_them(
    operator: Client, mixed: Written, files_url: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    offload(mixed.ledgers[0], files_url)
    broken = LedgerFiles("", cache_bytes=0)
    monkeypatch.setattr(stores, "_files", lambda: broken)
    operator.raise_request_exception = False
    response = operator.get(f"{PAGE}/m/{mixed.spot(0)}")
    assert response.status_code == 503
    assert "VELA_OFFLOAD_URL is not set" in text_of(response)
    assert operator.get(f"{PAGE}/m/{mixed.spot(19)}").status_code == 200


def test_a_lost_file_is_an_error_and_its_messages_do_not_count_as_trimmed(
    operator: Client, mixed: Written, files_url: str
) -> None:
    offload(mixed.ledgers[1], files_url)
    file = LedgerFile.objects.get(ledger_id=mixed.ledgers[1].pk)
    FileStorage(files_url).delete(file.name)
    operator.raise_request_exception = False
    for page in (f"{PAGE}/m/{mixed.spot(8)}", f"{PAGE}/messages?start=oldest&contains=17"):
        response = operator.get(page)
        assert (response.status_code, "there is no such file" in text_of(response)) == (503, True), page
    assert operator.get(f"{PAGE}/m/{mixed.spot(0)}").status_code == 200
    store = stores.FileStore(name=file.name, ledger_id=file.ledger_id)
    parameters = {"ledgers": [file.ledger_id], "entries": [0], "most_bytes": 1}
    Ledger.objects.filter(pk=file.ledger_id).delete()
    assert fetch_entries(dict, "peek", [store], parameters) == [], "retention has deleted the file"


def test_the_page_of_a_subscription_says_that_files_do_not_answer(
    operator: Client, shop: Shop, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offload(shop.sealed, files_url)
    broken = LedgerFiles("", cache_bytes=0)
    monkeypatch.setattr(stores, "_files", lambda: broken)
    response = operator.get("/t/persistent/public/default/orders/s/billing")
    assert response.status_code == 200
    assert "These messages cannot be read now: a ledger is offloaded" in text_of(response)
    found = operator.get("/api/v1/topics/persistent/public/default/orders/subscriptions/billing/diagnosis")
    assert found.status_code == 200


def test_a_storage_that_is_away_is_not_asked_again_and_again(
    operator: Client, mixed: Written, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read would take seconds, and pages that refresh themselves would use up all threads."""
    offload(mixed.ledgers[0], files_url)
    asked: list[str] = []

    class Away(LedgerFiles):
        def entry(self, name: str, entry_id: int) -> EntryRow | None:
            asked.append(name)
            raise OffloadUnavailable("no answer")

        read_some = entry  # type: ignore[assignment]

    away = Away(files_url, cache_bytes=0)
    monkeypatch.setattr(stores, "_files", lambda: away)
    operator.raise_request_exception = False
    for _ in range(3):
        assert "no answer" in text_of(operator.get(f"{PAGE}/m/{mixed.spot(0)}"))
    assert len(asked) == 1
    monkeypatch.setattr(stores, "_PAUSE_S", 0.0)
    stores._away.clear()
    operator.get(f"{PAGE}/m/{mixed.spot(0)}")
    operator.get(f"{PAGE}/m/{mixed.spot(0)}")
    assert len(asked) == 3


def test_an_export_has_the_messages_in_files(operator: Client, mixed: Written, files_url: str) -> None:
    def exported() -> bytes:
        response = operator.get(f"{PAGE}/messages/export?start=oldest")
        assert response.status_code == 200
        return b"".join(cast(Any, response).streaming_content)

    before = exported()
    assert before.count(b"\n") == 24  # a line for each message, and a last line that says why the export ends
    for ledger in mixed.ledgers[:-1]:
        offload(ledger, files_url)
    assert exported() == before
