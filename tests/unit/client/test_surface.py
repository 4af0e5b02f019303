"""The public names of both clients, compared with each other and with Apache's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pulsar
import pulsar.asyncio
import pulsar.schema
import pytest

import vela
import vela.aio
import vela.schema

INSIDE: Final[dict[str, set[str]]] = {  # methods of vela.aio that only the client's own objects call
    "Client": {
        "connection_for",
        "forget",
        "get_or_create_schema",
        "get_topics_of_namespace",
        "keep",
        "new_consumer_id",
        "new_producer_id",
        "partitions",
        "release",
        "require_open",
    },
    "Producer": {"prepare", "send_outgoing"},
    "PullConsumer": {"next_message"},
    "TableView": {"start"},
}
BLOCKING_ALONE: Final = {"wait_for"}
CALLED_BACK: Final = {"receive_async", "send_async"}  # these take a callback where vela.aio returns a future

LEFT_OUT: Final = {
    "AuthenticationAthenz",
    "AutoClusterFailover",
    "Context",
    "Function",
    "IdentitySerDe",
    "MessageBatch",
    "PickleSerDe",
    "ProtobufNativeSchema",
    "SerDe",
    "ServiceInfo",
    "ServiceInfoProvider",
    "functions",
    "get_service_info",
    "policy",
    "wrap",
}
"""Names of Apache's module that Vela leaves out, as docs/how-to/move-from-pulsar.md says."""
NO_NAMES: Final = {"schema", "schema_avro", "schema_protobuf", "definition", "tableview", "asyncio"}
"""Modules of Apache's package that appear among its names."""
CLASSES: Final = (
    "Client",
    "Consumer",
    "Producer",
    "Reader",
    "TableView",
    "Message",
    "MessageId",
    "EncryptionContext",
    "ConsumerBatchReceivePolicy",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "CryptoKeyReader",
    "AuthenticationToken",
    "AuthenticationTLS",
    "AuthenticationBasic",
    "ConsoleLogger",
    "FileLogger",
)
MADE_BY_A_CLIENT: Final = ("Consumer", "Producer", "Reader", "TableView", "Message", "EncryptionContext")
ASYNC_CLASSES: Final = ("Client", "Consumer", "Producer", "Reader")
GUIDE: Final = Path(__file__).parents[3] / "docs/how-to/move-from-pulsar.md"


def public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def own_names(module: ModuleType) -> set[str]:
    """Return the public names that a module defines itself; those that it imports from elsewhere are left out."""
    found = set()
    for name in public(module):
        origin = getattr(getattr(module, name), "__module__", None) or getattr(module, name).__name__
        if origin.startswith("pulsar"):
            found.add(name)
    return found


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return {
        name: each.default for name, each in inspect.signature(function).parameters.items() if name != "self"
    }


def methods(of: type, here: type) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield each method that both classes have, with its parameters in each."""
    for name in sorted(public(of) & public(here)):
        if callable(getattr(of, name)):
            yield name, parameters(getattr(of, name)), parameters(getattr(here, name))
    if inspect.isfunction(of.__init__):  # type: ignore[misc]  # of a class, not of an instance
        yield "__init__", parameters(of.__init__), parameters(here.__init__)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["Client", "Consumer", "Producer", "Reader", "TableView", "PullConsumer"])
def test_both_clients_have_the_same_methods(name: str) -> None:
    awaited, blocking = getattr(vela.aio, name), getattr(vela, name)
    assert public(awaited) - INSIDE.get(name, set()) == public(blocking) - BLOCKING_ALONE
    for method, there, here in methods(awaited, blocking):
        if method in CALLED_BACK:
            here.pop("callback")
        if method != "__init__" or name == "Client":
            assert here == there, method


@pytest.mark.parametrize(
    ("theirs", "ours"), [(pulsar, vela), (pulsar.schema, vela.schema), (pulsar.asyncio, vela.aio)]
)
def test_every_name_of_apaches_modules_is_here_or_left_out_on_purpose(
    theirs: ModuleType, ours: ModuleType
) -> None:
    elsewhere = public(vela) | {"BatchReceivePolicy", "DeadLetterPolicyBuilder", "KeySharedPolicy"}
    missing = own_names(theirs) - public(ours) - elsewhere - NO_NAMES - {"pulsar", "exceptions"}
    assert missing <= LEFT_OUT


@pytest.mark.parametrize("name", CLASSES)
def test_names_defaults_and_order_are_apaches(name: str) -> None:
    theirs, ours = getattr(pulsar, name), getattr(vela, name)
    assert public(theirs) - public(ours) <= LEFT_OUT
    for method, there, here in methods(theirs, ours):
        if method == "__init__" and name in MADE_BY_A_CLIENT:
            continue
        assert list(here)[: len(there)] == list(there), method
        for parameter, default in there.items():
            if parameter == "schema" or default is inspect.Parameter.empty:
                # Apache's schema None means bytes; an argument that Apache requires may have a default here.
                continue
            assert repr(here[parameter]) == repr(default), f"{method}({parameter})"


@pytest.mark.parametrize("name", ASYNC_CLASSES)
def test_names_and_defaults_equal_those_of_apaches_asyncio(name: str) -> None:
    theirs, ours = getattr(pulsar.asyncio, name), getattr(vela.aio, name)
    assert public(theirs) <= public(ours)
    for method, there, here in methods(theirs, ours):
        if method == "__init__":
            continue
        for parameter, default in there.items():
            if parameter in ("is_pattern_topic", "batching_enabled"):
                assert parameter in GUIDE.read_text(encoding="utf-8")
            elif parameter not in ("schema", "disable_replication"):
                assert repr(here[parameter]) == repr(default), f"{method}({parameter})"


def test_missing_parts_are_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in sorted(LEFT_OUT) if name not in text] == []
