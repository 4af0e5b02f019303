"""The admin API before it asks the broker anything: paths, methods, bodies and names."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from broker.access.access import Access
from broker.conf import BrokerSettings
from broker.doors.admin.api import API
from broker.doors.admin.application import AdminPages
from broker.doors.ports import AdminPort
from broker.storage.pool import ConnectionPool
from tests.support.broker_harness import ManualClock


@dataclass
class FakeBroker:
    """The parts of a broker that the admin API needs for requests that concern no topic."""

    settings: BrokerSettings = field(default_factory=BrokerSettings)
    clock: ManualClock = field(default_factory=ManualClock)

    @property
    def access(self) -> Access:
        """Allow everybody everything."""
        return Access(self.settings, ConnectionPool("", name="none", size=1))

    def is_ready(self) -> tuple[bool, str]:
        """Return that the broker is ready."""
        return True, ""


def ask(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send one request, and return the status, the headers and the body of the answer."""
    raw, _, query = path.partition("?")
    sent: list[Mapping[str, Any]] = []

    async def run() -> None:
        async def receive() -> Mapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: Mapping[str, Any]) -> None:
            sent.append(event)

        scope = {
            "type": "http",
            "method": method,
            "path": raw,
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        await AdminPages(cast("AdminPort", FakeBroker()))(scope, receive, send)

    asyncio.run(run())
    start, end = sent
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], answered, end["body"]


def reason(body: bytes) -> str:
    """Return the reason in a refusal."""
    return str(json.loads(body)["reason"])


def test_the_list_of_clusters_has_one_name() -> None:
    status, headers, body = ask("GET", "/admin/v2/clusters")
    assert (status, headers["content-type"], json.loads(body)) == (200, "application/json", ["vela"])


def test_a_slash_at_the_end_does_not_matter() -> None:
    assert ask("GET", "/admin/v2/clusters/")[0] == 200


def test_head_gets_the_headers_of_get() -> None:
    status, headers, body = ask("HEAD", "/admin/v2/clusters")
    assert (status, headers["content-length"], body) == (200, "8", b"")


@pytest.mark.parametrize("path", ["/admin/v2/nothing", "/admin/v3/functions", "/lookup/v2/x"])
def test_an_unknown_path_says_so(path: str) -> None:
    status, headers, body = ask("GET", path)
    assert (status, headers["content-type"]) == (404, "application/json")
    assert path in reason(body)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/v2/tenants/%FF",
        "/admin/v2/persistent/public/default/a%FFb/stats",
        "/admin/v2/persistent/public/default/t/subscription/%ED%A0%80/skip_all",
        "/topics/persistent/public/default/%FF",
    ],
)
def test_a_name_that_is_not_utf_8_is_refused_like_other_bad_names(path: str) -> None:
    status, headers, body = ask("GET", path)
    assert (status, headers["content-type"]) == (412, "application/json")
    assert "is not percent-encoded UTF-8" in reason(body)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/admin/v2/tenants/%2E%2E", "not only dots"),
        ("/admin/v2/namespaces/public/%2E%2E", "not only dots"),
        ("/admin/v2/persistent/public/default/%2E%2E", "must not be . or .."),
        ("/admin/v2/non-persistent/public/default/%2E", "must not be . or .."),
    ],
)
def test_a_name_that_a_client_would_resolve_in_a_path_is_refused(path: str, words: str) -> None:
    body = b'{"adminRoles": [], "allowedClusters": ["vela"]}' if "tenants" in path else b""
    status, _, said = ask("PUT", path, body)
    assert (status, words in reason(said)) == (412, True), said


def test_a_wrong_method_names_the_right_ones() -> None:
    status, headers, body = ask("DELETE", "/admin/v2/clusters")
    assert (status, headers["allow"]) == (405, "GET")
    assert "takes GET" in reason(body)


@pytest.mark.parametrize("body", [b"{", b'{"adminRoles": 7, "allowedClusters": ["vela"]}'])
def test_a_bad_body_is_400(body: bytes) -> None:
    assert ask("PUT", "/admin/v2/tenants/acme", body)[0] == 400


@pytest.mark.parametrize(
    ("content_type", "status", "words"),
    [
        ("multipart/form-data; boundary=x", 415, "(multipart/form-data): send JSON instead"),
        ("multipart/form-data", 415, "(multipart/form-data): send JSON instead"),
        ("application/x-www-form-urlencoded", 415, "(application/x-www-form-urlencoded): send JSON instead"),
        ("application/xml", 400, "the body is not JSON"),
        ("application/json; charset*=none''%41", 400, "the body is not JSON"),
    ],
)
def test_a_body_that_is_not_json_is_refused_with_what_to_send(
    content_type: str, status: int, words: str
) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'
    refused = ask("PUT", "/admin/v2/tenants/acme", body, {"Content-Type": content_type})
    assert (refused[0], words in reason(refused[2])) == (status, True), refused


@pytest.mark.parametrize(
    ("body", "words"), [(b'{"adminRoles": [', "(char 16)"), (b'{"a": "\xff"}', "it is not UTF-8 at byte 7")]
)
def test_broken_json_is_called_so_even_if_it_is_declared_as_a_form(body: bytes, words: str) -> None:
    status, _, said = ask(
        "PUT", "/admin/v2/tenants/acme", body, {"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert (status, words in reason(said)) == (400, True), said


def test_a_compressed_body_is_refused_with_what_to_send() -> None:
    body = gzip.compress(b'{"adminRoles": [], "allowedClusters": ["vela"]}')
    status, _, said = ask("PUT", "/admin/v2/tenants/acme", body, {"Content-Encoding": "gzip"})
    assert (status, "not compressed" in reason(said)) == (415, True)


def test_json_is_read_whatever_its_type_is_called() -> None:
    """`curl -d` declares its body as a form."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, said = ask("PUT", "/admin/v2/tenants/acme", b'{"adminRoles": 7}', headers)
    assert (status, "adminRoles in the body" in reason(said)) == (400, True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("listenerName=%F", "listenerName has a % without two hexadecimal digits"),
        ("listenerName=%FF", "listenerName is not percent-encoded UTF-8"),
        ("listenerName=first&listenerName=second", "first"),
        ("&".join(["a=1"] * 2000 + ["listenerName=third"]), "third"),
    ],
)
def test_a_query_is_decoded_as_those_of_the_other_doors(query: str, words: str) -> None:
    """As in Pulsar, the first value of a repeated parameter counts. There may be thousands of parameters."""
    status, _, said = ask("GET", f"/lookup/v2/topic/persistent/public/default/t?{query}")
    assert (400 <= status < 500, words in reason(said)) == (True, True), said


def test_a_body_with_many_wrong_values_gets_their_number() -> None:
    body = b"[" + b",".join([b"1"] * 5000) + b"]"
    status, _, said = ask("POST", "/admin/v2/namespaces/acme/orders/replication", body)
    assert (status, reason(said)) == (400, "the body cannot be used: 5000 of its values are wrong")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("t/partitions", b"true", "the body cannot be used: it is a boolean, and a number is needed"),
        ("t/partitions", b"[1]", "the body cannot be used: Input should be a valid integer"),
        ("t/partitions", b"{}", "the body lacks partitions"),
        ("t/partitions", b'{"partitions": []}', "partitions in the body: Input should be a valid integer"),
        ("t/subscription/s/resetcursor", b"5", "the body cannot be used: an object is needed"),
        ("t/subscription/s/resetcursor", b'{"ledgerId": 5}', "the body lacks entryId"),
    ],
)
def test_a_body_of_several_types_is_refused_without_names_of_python(
    path: str, body: bytes, words: str
) -> None:
    method = "POST" if "reset" in path else "PUT"
    status, _, said = ask(method, f"/admin/v2/persistent/public/default/{path}", body)
    assert (status, reason(said)) == (400, words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"messages": [{"payload": "\\ud800"}]}', "half of a surrogate pair"),
        (b'{"messages": [{"payload": "x", "properties": {"\\ud800": "x"}}]}', "half of a surrogate pair"),
        (b'{"messages": [{"payload": "x", "sequenceId": 9223372036854775807}]}', "sequenceId"),
        (b'{"messages": [' + b'{"payload": ""},' * 1000 + b'{"payload": ""}]}', "the limit is 1000"),
        (b'{"messages": ' + b"1" * 5000 + b"}", "a number in it has too many digits"),
    ],
)
def test_messages_that_cannot_be_stored_are_400_in_plain_words(body: bytes, words: str) -> None:
    status, _, answer = ask("POST", "/topics/persistent/public/default/t", body)
    assert (status, words in reason(answer)) == (400, True), answer


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "x" * 256, "%C3%A4"])
def test_a_tenant_with_a_bad_name_is_412(name: str) -> None:
    status, _, body = ask("PUT", f"/admin/v2/tenants/{name}", b'{"allowedClusters": ["vela"]}')
    assert status == 412
    assert "Tenant name is not valid" in reason(body)


def test_lookup_answers_every_url() -> None:
    status, _, body = ask("GET", "/lookup/v2/topic/persistent/public/default/orders")
    assert status == 200
    assert json.loads(body) == {
        "brokerUrl": "pulsar://127.0.0.1:6650",
        "brokerUrlTls": "pulsar+ssl://127.0.0.1:6650",
        "httpUrl": "http://127.0.0.1:8080",
        "httpUrlTls": "",
        "nativeUrl": "pulsar://127.0.0.1:6650",
    }


def test_lookup_refuses_an_unknown_listener() -> None:
    path = "/lookup/v2/topic/persistent/public/default/orders"
    assert ask("GET", f"{path}?listenerName=inside")[0] == 404
    assert ask("GET", path, headers={"X-Pulsar-ListenerName": "inside"})[0] == 404


@pytest.mark.parametrize("name", ["a%2Fb", "a+b", "%20"])
def test_a_topic_with_a_bad_name_is_412(name: str) -> None:
    assert ask("GET", f"/lookup/v2/topic/persistent/public/default/{name}")[0] == 412


def test_the_api_describes_itself() -> None:
    status, headers, body = ask("GET", "/admin/v2/openapi.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    document = json.loads(body)
    path = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
    responses = document["paths"][path]["get"]["responses"]
    name = responses["default"]["$ref"].rpartition("/")[2]
    described = document["components"]["responses"][name]["content"]["application/json"]["schema"]
    refused, _, said = ask("GET", "/lookup/v2/topic/persistent/public/default/%20")
    assert str(refused) not in responses
    Draft202012Validator(described).validate(json.loads(said))


def test_an_answer_that_is_not_json_is_described_with_its_type() -> None:
    document = json.loads(ask("GET", "/admin/v2/openapi.json")[2])
    for path, asked in (
        ("/admin/v2/brokers/version", "/admin/v2/brokers/version"),
        (
            "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle",
            "/lookup/v2/topic/persistent/public/default/orders/bundle",
        ),
    ):
        status, headers, _ = ask("GET", asked)
        assert list(document["paths"][path]["get"]["responses"][str(status)]["content"]) == [
            headers["content-type"]
        ]


def test_a_policy_that_is_not_set_is_described_as_204() -> None:
    document = json.loads(ask("GET", "/admin/v2/openapi.json")[2])
    described = document["paths"]["/admin/v2/namespaces/{tenant}/{namespace}/retention"]["get"]["responses"]
    assert {"200", "204"} <= described.keys()


def test_every_path_is_in_one_module() -> None:
    """If two modules had the same path, there would be two URL patterns, and only the first would be found."""
    paths = Counter(path for _, router in API._routers for path in router.path_operations)
    assert len(paths) > 100
    assert [path for path, count in paths.items() if count > 1] == []
