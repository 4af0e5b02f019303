"""Names of topics, as Pulsar writes them: domain://tenant/namespace/local-name[-partition-N]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker.core.errors import InvalidTopicName

__all__ = ["DOMAINS", "TopicName", "parse_namespace"]

DOMAINS: Final = ("persistent", "non-persistent")
_ENTITY = re.compile(r"(?!\.+\Z)[-=:.\w]+", re.ASCII)
_LOCAL = re.compile(r"[^\s/\x00-\x1f\x7f]+")
_PARTITION = re.compile(r"(?P<base>.+)-partition-(?P<index>0|[1-9][0-9]{0,8})")
_MAX_CHARACTERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicName:
    """A topic, or one partition of a partitioned topic."""

    domain: str  # persistent or non-persistent
    tenant: str
    namespace: str  # without its tenant
    local_name: str  # with the -partition-N suffix, if any
    partition: int | None  # index in the partitioned topic, None when the name has no suffix

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Read a full name, `tenant/namespace/name` or `name` (persistent://public/default/name).

        Raises InvalidTopicName; cluster names of Pulsar 1.x (four parts) are refused.
        """
        if len(text) > _MAX_CHARACTERS:
            raise InvalidTopicName(f"topic name is {len(text)} characters long; at most {_MAX_CHARACTERS}")
        domain, separator, rest = text.partition("://")
        if not separator:
            domain, rest = "persistent", text if "/" in text else f"public/default/{text}"
        if domain not in DOMAINS:
            raise InvalidTopicName(f"topic {text!r}: domain {domain!r} must be persistent or non-persistent")
        parts = rest.split("/")
        if len(parts) != 3:
            raise InvalidTopicName(f"topic {text!r} must be domain://tenant/namespace/name or a short name")
        tenant, namespace, local_name = parts
        _check_namespace(f"topic {text!r}", tenant, namespace)
        if not _LOCAL.fullmatch(local_name):
            raise InvalidTopicName(f"topic {text!r}: the local name must be set, without blanks or /")
        match = _PARTITION.fullmatch(local_name)
        return cls(
            domain=domain,
            tenant=tenant,
            namespace=namespace,
            local_name=local_name,
            partition=int(match["index"]) if match else None,
        )

    @property
    def full(self) -> str:
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

    def with_partition(self, index: int) -> TopicName:
        """Partition `index` of this topic (of its base, when this is itself a partition)."""
        if index < 0:
            raise InvalidTopicName(f"partition {index} of {self.base}: must be 0 or more")
        return TopicName.parse(f"{self.base}-partition-{index}")

    def __str__(self) -> str:
        return self.full


def parse_namespace(text: str) -> tuple[str, str]:
    """Tenant and namespace of `tenant/namespace`. Raises InvalidTopicName."""
    tenant, separator, namespace = text.partition("/")
    if not separator:
        raise InvalidTopicName(f"namespace {text!r}: write it as tenant/namespace")
    _check_namespace(f"namespace {text!r}", tenant, namespace)
    return tenant, namespace


def _check_namespace(what: str, tenant: str, namespace: str) -> None:
    """Pulsar's rule for names, and one more: a name of dots only is a step in a path to whoever reads it."""
    for word, value in (("tenant", tenant), ("namespace", namespace)):
        if not _ENTITY.fullmatch(value):
            raise InvalidTopicName(
                f"{what}: {word} {value!r} may hold letters, digits, -=:._ and not dots only"
            )
