"""`manage.py permission` lists and sets what the roles of clients may do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.acts import access
from broker.core.access.permissions import Subject
from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName, parse_namespace
from broker.management.caller import caller
from broker.models import GrantedPermission


class Command(BaseCommand):
    help = "List and set what the roles of clients may do in a tenant, a namespace or a topic."
    requires_system_checks = ()  # The checks would slow down every call

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list all permissions")
        change = actions.add_parser(
            "set", help="replace what a role may do; name no permission to revoke all"
        )
        change.add_argument("where", help="tenant, tenant/namespace, or a full topic name (persistent://…)")
        change.add_argument("role")
        change.add_argument(
            "permissions",
            nargs="*",
            metavar="permission",
            help="such as produce and consume; on a tenant, admin",
        )
        change.add_argument(
            "--subscription",
            default="",
            help="with a namespace: the subscription that is kept for this role",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for each in GrantedPermission.objects.order_by("pk"):
                self.stdout.write(f"{_where(each)}  {each.role}  {each.permission}")
            return
        try:
            subject = _subject(options["where"], options["subscription"])
            access.set_permissions(
                subject,
                options["role"],
                options["permissions"],
                who=caller(),
                origin="command line",
            )
        except (BrokerError, ValueError) as error:
            raise CommandError(str(error)) from None
        allowed = ", ".join(options["permissions"]) or "nothing"
        self.stdout.write(f"{options['role']} on {subject}: {allowed}")


def _subject(where: str, subscription: str) -> Subject:
    if "://" in where:
        if subscription:
            raise ValueError("a subscription's roles are set on a namespace: name the namespace, not a topic")
        return Subject.of_topic(TopicName.parse(where))
    if "/" in where:
        return replace(Subject.of_namespace(*parse_namespace(where)), subscription=subscription)
    if subscription:
        raise ValueError("a subscription is in a namespace: name the namespace, not a tenant")
    parse_namespace(f"{where}/any")  # Checks only the tenant's name
    return Subject(tenant=where)


def _where(each: GrantedPermission) -> str:
    place = each.topic or "/".join(filter(None, (each.tenant, each.namespace)))
    return f"{place}, subscription {each.subscription}" if each.subscription else place
