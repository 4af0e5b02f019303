"""Ask each question about the Admin REST API, and print `ok NAME` or `failed NAME: reason`.

The arguments are the command that starts `PulsarAdmin.java`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tests.interop.programs.pulsar_admin import broker, messages, policies, resources
from tests.interop.programs.pulsar_admin.tool import Tool

QUESTIONS: tuple[Callable[[Tool, str], None], ...] = (
    resources.tenants,
    resources.namespaces,
    policies.namespace_policies,
    policies.namespace_policies_more,
    policies.topic_policies,
    resources.permissions,
    resources.topics,
    resources.topics_more,
    messages.statistics,
    messages.subscriptions,
    messages.subscriptions_more,
    messages.messages,
    messages.messages_more,
    messages.schemas,
    broker.lifecycle,
    broker.lookup,
    broker.brokers,
    broker.version,
    broker.refusals,
    broker.token,
)


def main() -> None:
    tenant = os.environ["INTEROP_PREFIX"]
    with Tool(sys.argv[1:]) as admin:
        admin(f"tenants create {tenant} --allowed-clusters vela")
        for question in QUESTIONS:
            name = question.__name__.replace("_", "-")
            try:
                admin(f"namespaces create {tenant}/{name}")
                question(admin, f"{tenant}/{name}")
            except Exception as error:  # the error is the answer
                print(f"failed {name}: {' '.join(str(error).split())}", flush=True)
            else:
                print(f"ok {name}", flush=True)


if __name__ == "__main__":
    main()
