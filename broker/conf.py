"""The broker's settings: read once from the environment, validated at start, named in every complaint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from broker.core.web_origin import Origin, parse_host, parse_origin

__all__ = ["EXIT_SETTING_INVALID", "BrokerSettings", "SettingInvalid", "broker_settings"]

EXIT_SETTING_INVALID: Final = 78  # sysexits.h's EX_CONFIG: a supervisor need not start the process again

MIB = 1024 * 1024


class SettingInvalid(ValueError):
    """A setting has a value that cannot work. The text names the setting and what it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One broker process's settings; units are in the names, 0 means "no limit" where the comment says so."""

    bind: str  # VELA_BIND: address every door listens on
    http_port: int  # VELA_HTTP_PORT
    console_port: int  # VELA_CONSOLE_PORT: where the console listens, in its own process
    http_request_timeout_s: int  # VELA_HTTP_REQUEST_TIMEOUT_S: from a request's first byte to its last
    pulsar_port: int  # VELA_PULSAR_PORT
    advertised_url: str  # VELA_ADVERTISED_URL: what LOOKUP answers, pulsar://host:port
    advertised_tls_url: str  # VELA_ADVERTISED_TLS_URL: the same for clients with TLS, pulsar+ssl://host:port
    url: str  # VELA_URL: where handlers find the broker's HTTP port
    max_message_bytes: int  # VELA_MAX_MESSAGE_BYTES: largest entry payload accepted
    max_uncompressed_bytes: (
        int  # VELA_MAX_UNCOMPRESSED_BYTES: an unpacked payload; never below the one before
    )
    max_unanswered_publish_bytes: int  # VELA_MAX_UNANSWERED_PUBLISH_BYTES: over all connections
    tick_ms: int  # VELA_TICK_MS: period of Celery beat's tick
    wheel_enabled: bool  # VELA_WHEEL: the owner's own timing wheel, finer than a tick
    long_polling: bool  # VELA_LONG_POLLING: held pulls wait as long as they ask for, not the short time
    short_polling_ms: int  # VELA_SHORT_POLLING_MS: how long a pull is held where long polling is off
    act_expiry_s: int  # VELA_ACT_EXPIRY_S: an act that waited longer is refused
    plan_expiry_s: (
        int  # VELA_PLAN_EXPIRY_S: a plan that nobody applied for so long cannot be applied any more
    )
    act_log_days: int  # VELA_ACT_LOG_DAYS: acts are kept so long; 0 = for ever
    undo_window_s: int  # VELA_UNDO_WINDOW_S: how long an applied act can be undone
    auto_create_topics: bool  # VELA_AUTO_CREATE_TOPICS
    default_retention_ms: int  # VELA_DEFAULT_RETENTION_MS: acked messages of new namespaces are kept so long
    default_retention_bytes: int  # VELA_DEFAULT_RETENTION_BYTES
    deduplication_expiry_ms: (
        int  # VELA_DEDUPLICATION_EXPIRY_S: producer names unused for so long are forgotten
    )
    ledger_max_entries: int  # VELA_LEDGER_MAX_ENTRIES
    ledger_max_bytes: int  # VELA_LEDGER_MAX_BYTES
    ledger_min_age_ms: int  # VELA_LEDGER_MIN_AGE_S
    ledger_max_age_ms: int  # VELA_LEDGER_MAX_AGE_S
    segment_max_bytes: int  # VELA_SEGMENT_MAX_BYTES
    segment_max_age_ms: int  # VELA_SEGMENT_MAX_AGE_S
    lifetime_check_ms: int  # VELA_LIFETIME_CHECK_S: every topic is looked at once in this time
    topic_idle_ms: int  # VELA_TOPIC_IDLE_S: a topic without clients for so long leaves memory
    tail_cache_bytes: int  # VELA_TAIL_CACHE_BYTES: newest entries kept in memory, over all topics
    max_unacked_per_consumer: int  # VELA_MAX_UNACKED_PER_CONSUMER, messages; 0 = no limit
    max_unacked_per_subscription: int  # VELA_MAX_UNACKED_PER_SUBSCRIPTION, messages; 0 = no limit
    batch_index_acks: bool  # VELA_BATCH_INDEX_ACK: members of a batch can be acked by themselves
    failover_delay_ms: int  # VELA_FAILOVER_DELAY_MS: from a Failover subscription's choice to its switch
    failover_consistent_hashing: bool  # VELA_FAILOVER_CONSISTENT_HASHING: for partitions too
    key_shared_consistent_hashing: bool  # VELA_KEY_SHARED_CONSISTENT_HASHING; else ranges are halved
    key_shared_points: int  # VELA_KEY_SHARED_POINTS: of one consumer on the hash ring
    read_role: str  # VELA_READ_ROLE: a PostgreSQL role that may read what pages and jobs read; "" = none
    allowed_hosts: frozenset[str]  # VELA_ALLOWED_HOSTS: names the HTTP port answers to, beside own_hosts
    allowed_origins: frozenset[
        Origin
    ]  # VELA_ALLOWED_ORIGINS: web pages that may ask, beside the broker's own
    entry_filters: tuple[str, ...]  # VELA_ENTRY_FILTERS: dotted paths, asked before each delivery
    interceptors: tuple[str, ...]  # VELA_INTERCEPTORS: dotted paths, told of each delivery
    filter_reschedule_ms: int  # VELA_FILTER_RESCHEDULE_MS: when a filter is asked about an entry again
    counts_every_send: bool  # VELA_REDELIVERY_COUNT: every_send, not only what was asked for (explicit)
    refuse_old_clients: bool  # VELA_REFUSE_OLD_CLIENTS: at subscribe, where a topic holds batches
    lock_wait_s: float  # VELA_LOCK_WAIT_S: how long a second broker waits for the first to leave

    @property
    def local_host(self) -> str:
        """Where this machine itself finds the doors."""
        return _local_host(self.bind)

    @property
    def own_hosts(self) -> frozenset[str]:
        """Hosts by which clients reach this broker, as its settings name them: lower case, IPv6 in brackets."""
        advertised = parse_origin(self.advertised_url)
        hosts = {f"[{self.bind}]" if ":" in self.bind else self.bind.lower()} - {"0.0.0.0", "[::]"}  # noqa: S104 - compared
        return frozenset(hosts | ({advertised.host} if advertised else set()))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> BrokerSettings:
        """Read and check every setting. Raises SettingInvalid naming the first one that cannot work."""
        read = _Reader(environment)
        bind = environment.get("VELA_BIND") or "127.0.0.1"
        pulsar_port = read.integer("VELA_PULSAR_PORT", 6650, least=0, most=65535)
        host = _local_host(bind)
        advertised_url = read.text(
            "VELA_ADVERTISED_URL", f"pulsar://{host}:{pulsar_port}", _is_pulsar_url, "pulsar://host:port"
        )
        max_message_bytes = read.integer("VELA_MAX_MESSAGE_BYTES", 5 * MIB, least=1024, most=256 * MIB)
        return cls(
            bind=bind,
            http_port=read.integer("VELA_HTTP_PORT", 8080, least=0, most=65535),
            console_port=read.integer("VELA_CONSOLE_PORT", 8000, least=1, most=65535),
            http_request_timeout_s=read.integer("VELA_HTTP_REQUEST_TIMEOUT_S", 30, least=1, most=3600),
            pulsar_port=pulsar_port,
            advertised_url=advertised_url,
            advertised_tls_url=read.text(
                "VELA_ADVERTISED_TLS_URL",
                f"pulsar+ssl://{advertised_url.partition('://')[2]}",
                _is_pulsar_tls_url,
                "pulsar+ssl://host:port",
            ),
            url=read.text(
                "VELA_URL",
                f"http://{host}:{read.integer('VELA_HTTP_PORT', 8080, least=0, most=65535)}",
                _is_http_url,
                "http://host:port",
            ),
            max_message_bytes=max_message_bytes,
            max_uncompressed_bytes=max(  # what is taken without compression is delivered too
                max_message_bytes,
                read.integer("VELA_MAX_UNCOMPRESSED_BYTES", 64 * MIB, least=1024, most=256 * MIB),
            ),
            max_unanswered_publish_bytes=read.integer(
                "VELA_MAX_UNANSWERED_PUBLISH_BYTES", 256 * MIB, least=MIB
            ),
            tick_ms=read.integer("VELA_TICK_MS", 1000, least=100),
            wheel_enabled=read.flag("VELA_WHEEL", default=True),
            long_polling=read.flag("VELA_LONG_POLLING", default=True),
            short_polling_ms=read.integer("VELA_SHORT_POLLING_MS", 1000, least=1),
            act_expiry_s=read.integer("VELA_ACT_EXPIRY_S", 600, least=1),
            plan_expiry_s=read.integer("VELA_PLAN_EXPIRY_S", 3600, least=1),
            act_log_days=read.integer("VELA_ACT_LOG_DAYS", 90, least=0, most=36_500),
            undo_window_s=read.integer("VELA_UNDO_WINDOW_S", 3600, least=0),
            auto_create_topics=read.flag("VELA_AUTO_CREATE_TOPICS", default=True),
            default_retention_ms=read.integer("VELA_DEFAULT_RETENTION_MS", 24 * 3600 * 1000, least=-1),
            default_retention_bytes=read.integer("VELA_DEFAULT_RETENTION_BYTES", 1024 * MIB, least=-1),
            deduplication_expiry_ms=1000 * read.integer("VELA_DEDUPLICATION_EXPIRY_S", 6 * 3600, least=1),
            ledger_max_entries=read.integer("VELA_LEDGER_MAX_ENTRIES", 50_000, least=1),
            ledger_max_bytes=read.integer("VELA_LEDGER_MAX_BYTES", 2048 * MIB, least=1),
            ledger_min_age_ms=1000 * read.integer("VELA_LEDGER_MIN_AGE_S", 600, least=0),
            ledger_max_age_ms=1000 * read.integer("VELA_LEDGER_MAX_AGE_S", 14_400, least=1),
            segment_max_bytes=read.integer("VELA_SEGMENT_MAX_BYTES", 1024 * MIB, least=MIB),
            segment_max_age_ms=1000 * read.integer("VELA_SEGMENT_MAX_AGE_S", 24 * 3600, least=1),
            lifetime_check_ms=1000 * read.integer("VELA_LIFETIME_CHECK_S", 10, least=1),
            topic_idle_ms=1000 * read.integer("VELA_TOPIC_IDLE_S", 300, least=1),
            tail_cache_bytes=read.integer("VELA_TAIL_CACHE_BYTES", 64 * MIB, least=0),
            max_unacked_per_consumer=read.integer("VELA_MAX_UNACKED_PER_CONSUMER", 50_000, least=0),
            max_unacked_per_subscription=read.integer("VELA_MAX_UNACKED_PER_SUBSCRIPTION", 200_000, least=0),
            batch_index_acks=read.flag("VELA_BATCH_INDEX_ACK", default=True),
            failover_delay_ms=read.integer("VELA_FAILOVER_DELAY_MS", 1000, least=0),
            failover_consistent_hashing=read.flag("VELA_FAILOVER_CONSISTENT_HASHING", default=False),
            key_shared_consistent_hashing=read.flag("VELA_KEY_SHARED_CONSISTENT_HASHING", default=True),
            key_shared_points=read.integer("VELA_KEY_SHARED_POINTS", 100, least=1, most=1000),
            read_role=environment.get("VELA_READ_ROLE", ""),
            allowed_hosts=read.hosts("VELA_ALLOWED_HOSTS"),
            allowed_origins=read.origins("VELA_ALLOWED_ORIGINS"),
            entry_filters=_listed(environment.get("VELA_ENTRY_FILTERS", "")),
            interceptors=_listed(environment.get("VELA_INTERCEPTORS", "")),
            filter_reschedule_ms=read.integer("VELA_FILTER_RESCHEDULE_MS", 1000, least=1),
            counts_every_send=read.choice("VELA_REDELIVERY_COUNT", ("explicit", "every_send"))
            == "every_send",
            refuse_old_clients=read.flag("VELA_REFUSE_OLD_CLIENTS", default=True),
            lock_wait_s=read.integer("VELA_LOCK_WAIT_S", 20, least=0),
        )


def _listed(text: str) -> tuple[str, ...]:
    """What stands between the commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _local_host(bind: str) -> str:
    return "127.0.0.1" if bind in ("0.0.0.0", "::") else bind  # noqa: S104 - compared, not bound


def _is_pulsar_url(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    return scheme in ("pulsar", "pulsar+ssl") and bool(host) and port.isdigit()


def _is_pulsar_tls_url(text: str) -> bool:
    return text.startswith("pulsar+ssl://") and _is_pulsar_url(text)


def _is_http_url(text: str) -> bool:
    scheme, separator, rest = text.partition("://")
    return scheme in ("http", "https", "ws", "wss") and bool(separator) and bool(rest.split("/")[0])


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def integer(self, name: str, default: int, *, least: int, most: int = 2**62) -> int:
        raw = self._environment.get(name, "")
        if not raw:
            return default
        try:
            value = int(raw)
        except ValueError:
            raise SettingInvalid(f"{name} is {raw!r}: it takes a whole number") from None
        if not least <= value <= most:
            raise SettingInvalid(f"{name} is {value}: it takes a number from {least} to {most}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        raw = self._environment.get(name, "").lower()
        if not raw:
            return default
        if raw in ("1", "true", "yes", "on"):
            return True
        if raw in ("0", "false", "no", "off"):
            return False
        raise SettingInvalid(f"{name} is {raw!r}: it takes 1 or 0")

    def choice(self, name: str, values: Sequence[str]) -> str:
        """One of `values`, the first where nothing is said."""
        value = self._environment.get(name, "").lower() or values[0]
        if value not in values:
            raise SettingInvalid(f"{name} is {value!r}: it takes {' or '.join(values)}")
        return value

    def hosts(self, name: str) -> frozenset[str]:
        """Host names without a port; `.example.org` is a domain with all that is below it, `*` is any host."""
        hosts = _listed(self._environment.get(name, "").lower())
        for host in hosts:
            if host != "*" and parse_host(host) != (host, None):
                raise SettingInvalid(
                    f"{name} has {host!r}: it takes names without a port, IPv6 addresses in brackets, by commas"
                )
        return frozenset(hosts)

    def origins(self, name: str) -> frozenset[Origin]:
        """Origins of web pages."""
        origins = set()
        for text in _listed(self._environment.get(name, "")):
            origin = parse_origin(text.rstrip("/"))
            if origin is None:
                raise SettingInvalid(f"{name} has {text!r}: it takes https://host:port, separated by commas")
            origins.add(origin)
        return frozenset(origins)

    def text(self, name: str, default: str, valid: Callable[[str], bool], shape: str) -> str:
        value = self._environment.get(name, "") or default
        if not valid(value):
            raise SettingInvalid(f"{name} is {value!r}: it takes {shape}")
        return value


@cache
def broker_settings() -> BrokerSettings:
    """The settings of this process, from its environment."""
    return BrokerSettings.from_environment(os.environ)
