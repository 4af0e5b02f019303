"""The broker's settings, read once from the environment.

This file is long because it declares most settings of the broker.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from broker.access_settings import AccessSettings
from broker.core.web_origin import Origin, parse_host, parse_origin
from broker.environment import Between, SettingInvalid, Variable, listed, read_settings

__all__ = ["EXIT_LOCK_TAKEN", "EXIT_SETTING_INVALID", "BrokerSettings", "SettingInvalid", "broker_settings"]

EXIT_LOCK_TAKEN: Final = 75  # EX_TEMPFAIL in sysexits.h
EXIT_SETTING_INVALID: Final = 78  # EX_CONFIG in sysexits.h

MIB = 1024 * 1024
_OFFLOAD_SCHEMES: Final = ("file", "s3", "gs", "abfs", "abfss", "hdfs")
_SPARK_MASTERS: Final = ("spark://", "k8s://", "yarn")


def _address(text: str) -> str:
    try:
        if ":" in text:
            ipaddress.IPv6Address(text)
        elif parse_host(text) is None:
            raise ValueError
    except ValueError:
        raise ValueError("it takes an IP address, without brackets and port, or a host name") from None
    return text


def _dotted_paths(text: str) -> tuple[str, ...]:
    paths = listed(text)
    for path in paths:
        if "." not in path or not all(part.isidentifier() for part in path.split(".")):
            raise ValueError(f"it takes package.module.Name, separated by commas, which {path!r} is not")
    return paths


def _is_pulsar_url(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    return scheme in ("pulsar", "pulsar+ssl") and bool(host) and port.isdigit()


def _pulsar_url(text: str) -> str:
    if not _is_pulsar_url(text):
        raise ValueError("it takes pulsar://host:port")
    return text


def _pulsar_tls_url(text: str) -> str:
    if not (text.startswith("pulsar+ssl://") and _is_pulsar_url(text)):
        raise ValueError("it takes pulsar+ssl://host:port")
    return text


def _offload_url(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in _OFFLOAD_SCHEMES or not (parts.netloc or parts.path.startswith("/"))):
        raise ValueError("it takes file:///folder, s3://bucket/folder, gs://, abfs:// or hdfs://")
    if parts.scheme == "file" and parts.netloc:
        raise ValueError("it takes file:///folder, with three slashes")
    if parts.username or parts.password:
        raise ValueError("it takes no login: give credentials as the storage's own tools take them")
    return text


def _spark_master(text: str) -> str:
    if text and not text.startswith(_SPARK_MASTERS):
        raise ValueError("it takes spark://host:port, yarn or k8s://https://host:port")
    return text


def _http_url(text: str) -> str:
    return _url_of(text, ("http", "https"), "http://host:port")


def _client_url(text: str) -> str:
    schemes = ("http", "https", "ws", "wss", "pulsar", "pulsar+ssl")
    return _url_of(text, schemes, "ws://host:port, http://host:port or pulsar://host:port")


def _url_of(text: str, schemes: Sequence[str], example: str) -> str:
    scheme, separator, rest = text.partition("://")
    if scheme not in schemes or not separator or not rest.split("/")[0]:
        raise ValueError(f"it takes {example}")
    return text


def _hosts(text: str) -> frozenset[str]:
    """Parse host names. `.example.org` means a domain with all its subdomains, and `*` means any host."""
    hosts = listed(text.lower())
    for host in hosts:
        if host != "*" and parse_host(host) != (host, None):
            raise ValueError(
                f"it takes names without a port, IPv6 addresses in brackets, separated by commas, which {host!r} is not"
            )
    return frozenset(hosts)


def _origins(text: str) -> frozenset[Origin]:
    origins = set()
    for each in listed(text):
        origin = parse_origin(each.rstrip("/"))
        if origin is None:
            raise ValueError(f"it takes https://host:port, separated by commas, which {each!r} is not")
        origins.add(origin)
    return frozenset(origins)


def _is_every_send(text: str) -> bool:
    if text.lower() not in ("explicit", "every_send"):
        raise ValueError("it takes explicit or every_send")
    return text.lower() == "every_send"


_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
# The environment variable is in seconds, and the field is in milliseconds.
_IN_MS: Final = AfterValidator(lambda seconds: seconds * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings(AccessSettings):
    """The settings of one process."""

    bind: Annotated[
        str,
        AfterValidator(_address),
        Variable("VELA_BIND", "address", "the address that all ports listen on"),
    ] = "127.0.0.1"
    console_read_only: Annotated[
        bool, Variable("VELA_CONSOLE_READ_ONLY", "switch", "the console shows everything and changes nothing")
    ] = False
    advertised_url: Annotated[
        str,
        AfterValidator(_pulsar_url),
        Variable("VELA_ADVERTISED_URL", "URL", "the address that clients get from LOOKUP"),
    ] = ""
    advertised_tls_url: Annotated[
        str,
        AfterValidator(_pulsar_tls_url),
        Variable("VELA_ADVERTISED_TLS_URL", "URL", "the address that clients with TLS get from LOOKUP"),
    ] = ""
    advertised_http_url: Annotated[
        str,
        AfterValidator(_http_url),
        Variable("VELA_ADVERTISED_HTTP_URL", "URL", "the HTTP address that clients get from the admin API"),
    ] = ""
    url: Annotated[
        str, AfterValidator(_client_url), Variable("VELA_URL", "URL", "where handlers find the broker")
    ] = ""
    database_name: Annotated[
        str, Variable("VELA_DATABASE_NAME", "name", "another database on the configured server")
    ] = ""
    read_role: Annotated[
        str, Variable("VELA_READ_ROLE", "role", "the PostgreSQL role with which pages read")
    ] = ""
    admin_password: Annotated[
        str,
        Variable(
            "VELA_ADMIN_PASSWORD",
            "text",
            "the password of the user admin when it is created; unset: a random one",
            is_secret=True,
        ),
    ] = field(default="", repr=False)
    max_message_bytes: Annotated[
        int,
        Between(1024, 256 * MIB),
        Variable("VELA_MAX_MESSAGE_BYTES", "bytes", "the largest payload of an entry"),
    ] = 5 * MIB
    max_uncompressed_bytes: Annotated[
        int,
        Between(1024, 256 * MIB),
        Variable(
            "VELA_MAX_UNCOMPRESSED_BYTES",
            "bytes",
            "the largest uncompressed payload; never below VELA_MAX_MESSAGE_BYTES",
        ),
    ] = 64 * MIB
    max_unanswered_publish_bytes: Annotated[
        int,
        Between(MIB),
        Variable(
            "VELA_MAX_UNANSWERED_PUBLISH_BYTES",
            "bytes",
            "publishes that wait for receipts, over all connections",
        ),
    ] = 256 * MIB
    tick_ms: Annotated[
        int, Between(100), Variable("VELA_TICK_MS", "ms", "the period of Celery beat's tick")
    ] = 1000
    wheel_enabled: Annotated[
        bool, Variable("VELA_WHEEL", "switch", "the broker's own timer, finer than a tick")
    ] = True
    long_polling: Annotated[
        bool, Variable("VELA_LONG_POLLING", "switch", "a pull waits for as long as it asks")
    ] = True
    short_polling_ms: Annotated[
        int,
        Between(1),
        Variable("VELA_SHORT_POLLING_MS", "ms", "how long a pull waits if long polling is off"),
    ] = 1000
    act_expiry_s: Annotated[
        int, Between(1), Variable("VELA_ACT_EXPIRY_S", "s", "an act that waited longer expires")
    ] = 600
    plan_expiry_s: Annotated[
        int,
        Between(1),
        Variable("VELA_PLAN_EXPIRY_S", "s", "a plan that waited longer can no longer be applied"),
    ] = 3600
    act_log_days: Annotated[
        int, Between(0, 36_500), Variable("VELA_ACT_LOG_DAYS", "days", "how long acts are kept; 0: for ever")
    ] = 90
    act_log_client_rows: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_ACT_LOG_CLIENT_ROWS", "acts", "how many acts that clients requested are kept; 0: no limit"
        ),
    ] = 100_000
    history_10s_hours: Annotated[
        int,
        Between(1, 876_000),
        Variable("VELA_HISTORY_10S_HOURS", "h", "how long charts have a point for each 10 s"),
    ] = 2
    history_1min_hours: Annotated[
        int,
        Between(6, 876_000),
        Variable("VELA_HISTORY_1MIN_HOURS", "h", "how long charts have a point for each minute"),
    ] = 24
    history_10min_days: Annotated[
        int,
        Between(1, 36_500),
        Variable("VELA_HISTORY_10MIN_DAYS", "days", "how long charts have a point for each ten minutes"),
    ] = 7
    history_1h_days: Annotated[
        int,
        Between(30, 36_500),
        Variable("VELA_HISTORY_1H_DAYS", "days", "how long charts have a point for each hour"),
    ] = 90
    delivery_story_rows: Annotated[
        int,
        Between(1),
        Variable("VELA_DELIVERY_STORY_ROWS", "rows", "most rows of delivery stories, over all topics"),
    ] = 5_000_000
    undo_window_s: Annotated[
        int, Between(0), Variable("VELA_UNDO_WINDOW_S", "s", "how long an applied act can be undone")
    ] = 3600
    compaction_rate_bytes: Annotated[
        int,
        Between(1),
        Variable(
            "VELA_COMPACTION_RATE_BYTES", "bytes", "most that compaction reads per second, over all topics"
        ),
    ] = 32 * MIB
    compaction_max_keys: Annotated[
        int,
        Between(1),
        Variable(
            "VELA_COMPACTION_MAX_KEYS",
            "keys",
            "a topic with more keys is not compacted: the broker has all of them in memory, about 150 bytes each",
        ),
    ] = 2_000_000
    compaction_retain_keyless: Annotated[
        bool,
        Variable("VELA_COMPACTION_RETAIN_KEYLESS", "switch", "compaction keeps messages without a key"),
    ] = False
    topic_metrics: Annotated[
        bool,
        Variable(
            "VELA_TOPIC_METRICS",
            "switch",
            "/metrics has series of each topic and subscription; 0: sums of each namespace",
        ),
    ] = True
    otel: Annotated[
        bool, Variable("VELA_OTEL", "switch", "OpenTelemetry spans of messages that are traced")
    ] = False
    auto_create_topics: Annotated[
        bool, Variable("VELA_AUTO_CREATE_TOPICS", "switch", "clients create topics by opening them")
    ] = True
    default_retention_ms: Annotated[
        int,
        Between(-1),
        Variable(
            "VELA_DEFAULT_RETENTION_MS", "ms", "how long new namespaces keep acked messages; -1: for ever"
        ),
    ] = 24 * 3600 * 1000
    default_retention_bytes: Annotated[
        int,
        Between(-1),
        Variable(
            "VELA_DEFAULT_RETENTION_BYTES", "bytes", "how many bytes of a topic new namespaces keep; -1: all"
        ),
    ] = 1024 * MIB
    deduplication_expiry_ms: Annotated[
        int,
        Between(1),
        _IN_MS,
        Variable("VELA_DEDUPLICATION_EXPIRY_S", "s", "producer names unused for longer are forgotten"),
    ] = 6 * 3600 * 1000
    ledger_max_entries: Annotated[
        int, Between(1), Variable("VELA_LEDGER_MAX_ENTRIES", "entries", "a ledger with this many is sealed")
    ] = 50_000
    ledger_max_bytes: Annotated[
        int, Between(1), Variable("VELA_LEDGER_MAX_BYTES", "bytes", "a ledger of this size is sealed")
    ] = 2048 * MIB
    ledger_min_age_ms: Annotated[
        int, Between(0), _IN_MS, Variable("VELA_LEDGER_MIN_AGE_S", "s", "a younger ledger is not sealed")
    ] = 600 * 1000
    ledger_max_age_ms: Annotated[
        int, Between(1), _IN_MS, Variable("VELA_LEDGER_MAX_AGE_S", "s", "an older ledger is sealed")
    ] = 14_400 * 1000
    segment_max_bytes: Annotated[
        int, Between(MIB), Variable("VELA_SEGMENT_MAX_BYTES", "bytes", "a larger table of entries is closed")
    ] = 1024 * MIB
    segment_max_age_ms: Annotated[
        int,
        Between(1),
        _IN_MS,
        Variable("VELA_SEGMENT_MAX_AGE_S", "s", "an older table of entries is closed"),
    ] = 24 * 3600 * 1000
    lifetime_check_ms: Annotated[
        int,
        Between(1),
        _IN_MS,
        Variable("VELA_LIFETIME_CHECK_S", "s", "each topic is checked once in this time"),
    ] = 10 * 1000
    topic_idle_ms: Annotated[
        int,
        Between(1),
        _IN_MS,
        Variable("VELA_TOPIC_IDLE_S", "s", "a topic without clients for longer leaves memory"),
    ] = 300 * 1000
    tail_cache_bytes: Annotated[
        int,
        Between(0),
        Variable("VELA_TAIL_CACHE_BYTES", "bytes", "the newest entries kept in memory, over all topics"),
    ] = 64 * MIB
    max_unacked_per_consumer: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_UNACKED_PER_CONSUMER", "messages", "unacknowledged messages of a consumer; 0: no limit"
        ),
    ] = 50_000
    max_unacked_per_subscription: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_MAX_UNACKED_PER_SUBSCRIPTION",
            "messages",
            "unacknowledged messages of a subscription; 0: no limit",
        ),
    ] = 200_000
    batch_index_acks: Annotated[
        bool, Variable("VELA_BATCH_INDEX_ACK", "switch", "clients can acknowledge single messages of a batch")
    ] = True
    failover_delay_ms: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_FAILOVER_DELAY_MS", "ms", "how long a new active consumer waits for its first message"
        ),
    ] = 1000
    failover_consistent_hashing: Annotated[
        bool,
        Variable(
            "VELA_FAILOVER_CONSISTENT_HASHING",
            "switch",
            "a hash ring chooses the active consumer, for partitions too",
        ),
    ] = False
    key_shared_consistent_hashing: Annotated[
        bool,
        Variable(
            "VELA_KEY_SHARED_CONSISTENT_HASHING",
            "switch",
            "a hash ring gives slots to consumers; 0: ranges are halved",
        ),
    ] = True
    key_shared_points: Annotated[
        int,
        Between(1, 1000),
        Variable("VELA_KEY_SHARED_POINTS", "points", "points of one consumer on the hash ring"),
    ] = 100
    allowed_hosts: Annotated[
        frozenset[str],
        PlainValidator(_hosts),
        Variable(
            "VELA_ALLOWED_HOSTS",
            "names, separated by commas",
            "host names that both HTTP ports answer to, besides their own",
        ),
    ] = frozenset()
    allowed_origins: Annotated[
        frozenset[Origin],
        PlainValidator(_origins),
        Variable(
            "VELA_ALLOWED_ORIGINS",
            "origins, separated by commas",
            "web pages that may use the broker's HTTP port, besides its own",
        ),
    ] = frozenset()
    entry_filters: Annotated[
        tuple[str, ...],
        PlainValidator(_dotted_paths),
        Variable(
            "VELA_ENTRY_FILTERS",
            "names, separated by commas",
            "dotted paths of filters, asked before each delivery",
        ),
    ] = ()
    interceptors: Annotated[
        tuple[str, ...],
        PlainValidator(_dotted_paths),
        Variable(
            "VELA_INTERCEPTORS",
            "names, separated by commas",
            "dotted paths of interceptors, notified of each delivery",
        ),
    ] = ()
    filter_reschedule_ms: Annotated[
        int,
        Between(1),
        Variable("VELA_FILTER_RESCHEDULE_MS", "ms", "how long until a filter is asked again"),
    ] = 1000
    counts_every_send: Annotated[
        bool,
        BeforeValidator(_is_every_send),
        Variable("VELA_REDELIVERY_COUNT", "`explicit`, `every_send`", "which redeliveries raise the count"),
    ] = False
    refuse_old_clients: Annotated[
        bool,
        Variable(
            "VELA_REFUSE_OLD_CLIENTS",
            "switch",
            "clients that cannot read batches may not subscribe to topics with batches",
        ),
    ] = True
    lock_wait_s: Annotated[
        int,
        Between(0),
        Variable("VELA_LOCK_WAIT_S", "s", "how long a second broker waits for the first to stop"),
    ] = 20
    alert_local_webhooks: Annotated[
        bool,
        Variable(
            "VELA_ALERT_LOCAL_WEBHOOKS", "switch", "webhooks of alerts may go to loopback and link-local"
        ),
    ] = False
    pipeline_folder: Annotated[
        str, Variable("VELA_PIPELINE_DIR", "folder", "where jobs of the pipeline write and read files")
    ] = ""
    pipeline_runs: Annotated[
        int, Between(1, 64), Variable("VELA_PIPELINE_RUNS", "runs", "jobs of the pipeline that run at a time")
    ] = 1
    spark_master: Annotated[
        str,
        AfterValidator(_spark_master),
        Variable("VELA_SPARK_MASTER", "URL", "the Spark cluster that runs jobs; unset: the worker's machine"),
    ] = ""
    spark_database_url: Annotated[
        str,
        Variable(
            "VELA_SPARK_DATABASE_URL", "URL", "the database, as Spark's executors reach it", is_secret=True
        ),
    ] = field(default="", repr=False)
    pipeline_cores: Annotated[
        int,
        Between(1, 256),
        Variable("VELA_PIPELINE_CORES", "tasks", "Spark tasks of one job at a time, each with a connection"),
    ] = 2
    pipeline_memory_mb: Annotated[
        int,
        Between(512),
        Variable("VELA_PIPELINE_MEMORY_MB", "MiB", "heap of one job's Java, and of each of its executors"),
    ] = 1024
    pipeline_niceness: Annotated[
        int,
        Between(0, 19),
        Variable("VELA_PIPELINE_NICE", "nice", "how far the priority of a job's processes is lowered"),
    ] = 10
    pipeline_read_bytes_per_s: Annotated[
        int,
        Between(0),
        Variable("VELA_PIPELINE_READ_RATE", "bytes/s", "the most that one job reads per second; 0: no limit"),
    ] = 0
    pipeline_statement_timeout_ms: Annotated[
        int,
        Between(100, 600_000),
        Variable("VELA_PIPELINE_STATEMENT_TIMEOUT_MS", "ms", "time limit of one query of a job"),
    ] = 30_000
    offload_url: Annotated[
        str,
        AfterValidator(_offload_url),
        Variable("VELA_OFFLOAD_URL", "URL", "where the files of offloaded ledgers are; empty: no offloading"),
    ] = ""
    offload_cache_bytes: Annotated[
        int,
        Between(0),
        Variable(
            "VELA_OFFLOAD_CACHE_BYTES", "bytes", "parts of offloaded files that the broker keeps in memory"
        ),
    ] = 32 * MIB
    pipeline_log_days: Annotated[
        int, Between(0), Variable("VELA_PIPELINE_LOG_DAYS", "days", "how long runs are kept; 0: for ever")
    ] = 30

    def __post_init__(self) -> None:
        self.check_together()
        self.check_access()
        host = self.local_host
        set_ = object.__setattr__  # The dataclass is frozen
        tls_url = self._own_tls_url(host)
        plain_url = tls_url if self.pulsar_port is None else f"pulsar://{host}:{self.pulsar_port}"
        set_(self, "advertised_url", self.advertised_url or plain_url)
        set_(self, "advertised_tls_url", self.advertised_tls_url or tls_url)
        set_(self, "advertised_http_url", self.advertised_http_url or self.local_http_url)
        set_(self, "url", self.url or self.local_http_url)
        set_(self, "max_uncompressed_bytes", max(self.max_message_bytes, self.max_uncompressed_bytes))

    def _own_tls_url(self, host: str) -> str:
        given = self.advertised_url.partition("://")[2]
        if (
            self.has_tls
            and self.pulsar_tls_port is not None
            and not self.advertised_url.startswith("pulsar+ssl")
        ):
            return f"pulsar+ssl://{given.rpartition(':')[0] or host}:{self.pulsar_tls_port}"
        return f"pulsar+ssl://{given or f'{host}:{self.pulsar_port}'}"

    @property
    def local_http_url(self) -> str:
        """The URL at which this machine reaches the broker's HTTP port."""
        port, has_tls = self.broker_probe
        return f"{'https' if has_tls else 'http'}://{self.local_host}:{port}"

    @property
    def https_url(self) -> str:
        """The HTTPS URL that lookups return to clients. Empty if there is none."""
        if self.advertised_http_url.startswith("https:"):
            return self.advertised_http_url
        port = self.open_ports.get("VELA_HTTP_TLS_PORT")
        return "" if port is None else f"https://{self.local_host}:{port}"

    @property
    def local_host(self) -> str:
        """The host at which this machine reaches the broker and the console. An IPv6 address is in brackets."""
        host = _EVERYWHERE.get(self.bind, self.bind)
        return f"[{host}]" if ":" in host else host

    @property
    def history_kept_ms(self) -> Mapping[int, int]:
        """How long chart points are kept. Each key is the number of seconds that one point covers."""
        hour_ms = 3_600_000
        return {
            10: self.history_10s_hours * hour_ms,
            60: self.history_1min_hours * hour_ms,
            600: self.history_10min_days * 24 * hour_ms,
            3600: self.history_1h_days * 24 * hour_ms,
        }

    @property
    def own_hosts(self) -> frozenset[str]:
        """The hosts at which clients reach this broker. IPv6 addresses are in brackets."""
        urls = (self.advertised_url, self.advertised_http_url)
        advertised = [parse_origin("/".join(url.split("/")[:3])) for url in urls]
        hosts = {f"[{self.bind}]" if ":" in self.bind else self.bind.lower()} - {"0.0.0.0", "[::]"}  # noqa: S104 - compared
        return frozenset(hosts | {origin.host for origin in advertised if origin})

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read and check every setting. Raises SettingInvalid with a line for each bad setting."""
        return read_settings(cls, environment)


@cache
def broker_settings() -> BrokerSettings:
    """Return the settings of this process. Raises SettingInvalid if a setting is bad."""
    return BrokerSettings.from_environment(os.environ)
