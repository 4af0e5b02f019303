"""Names of topics, as Pulsar writes them: domain://tenant/namespace/local-name[-partition-N]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from vela.wire.errors import InvalidTopicName

__all__ = ["DEFAULT_NAMESPACE", "DOMAINS", "TopicName", "parse_namespace"]

DOMAINS: Final = ("persistent", "non-persistent")
DEFAULT_NAMESPACE: Final = "public/default"
"""The namespace of a topic whose name has none."""
_ENTITY: Final = re.compile(r"(?!\.+\Z)[-=:.\w]+", re.ASCII)
_PARTITION: Final = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicName:
    """A topic, or one partition of a partitioned topic."""

    domain: str  # persistent or non-persistent
    tenant: str
    namespace: str  # without its tenant
    local_name: str  # with the -partition-N suffix, if any
    partition: int | None  # index in the partitioned topic, None when the name has no suffix

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a topic's full or short name: `a/b/c` is persistent://a/b/c, and `c` is persistent://public/default/c.

        Raises InvalidTopicName, also for a name of four parts, as Pulsar 1.x had.
        """
        domain, separator, rest = text.partition("://")
        if not separator:
            domain, rest = "persistent", text if "/" in text else f"{DEFAULT_NAMESPACE}/{text}"
        parts = rest.split("/")
        if domain not in DOMAINS or len(parts) != 3 or not all(parts) or not parts[2].strip():
            raise InvalidTopicName(
                f"{text!r} is not a topic name: write t, tenant/namespace/t or persistent://tenant/namespace/t"
            )
        tenant, namespace, local_name = parts
        _check_namespace(f"{text!r} is not a topic name", tenant, namespace)
        match = _PARTITION.fullmatch(local_name)
        if (match[1] if match else local_name) in (".", ".."):
            raise InvalidTopicName(
                f"{text!r} is not a topic name: the local name must not be . or .., because clients and proxies"
                " resolve these in a URL"
            )
        return cls(
            domain=domain,
            tenant=tenant,
            namespace=namespace,
            local_name=local_name,
            partition=int(match[2]) if match else None,
        )

    @property
    def full(self) -> str:
        """The whole name."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    @property
    def namespace_name(self) -> str:
        """tenant/namespace."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def base(self) -> str:
        """Full name of the partitioned topic; the same as `full` where there is no suffix."""
        if self.partition is None:
            return self.full
        return self.full.removesuffix(f"-partition-{self.partition}")

    def __str__(self) -> str:
        return self.full


def parse_namespace(text: str) -> tuple[str, str]:
    """Return tenant and namespace of `tenant/namespace`. Raises InvalidTopicName."""
    tenant, separator, namespace = text.partition("/")
    if not separator:
        raise InvalidTopicName(f"{text!r} is not a namespace's name: write it as tenant/namespace")
    _check_namespace(f"{text!r} is not a namespace's name", tenant, namespace)
    return tenant, namespace


def _check_namespace(what: str, tenant: str, namespace: str) -> None:
    """Check Pulsar's rule for names, and refuse names of dots only: in a URL they mean another folder."""
    for word, value in (("tenant", tenant), ("namespace", namespace)):
        if not _ENTITY.fullmatch(value):
            raise InvalidTopicName(
                f"{what}: {word} {value!r} may have letters, digits and -=:._, but not only dots"
            )
