"""The common part of the commands that plan and apply an act. An act is a recorded change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.acts import requests as acts
from broker.acts.kinds.partition_choice import PARTITIONS
from broker.core.counted import counted
from broker.core.errors import InvalidTopicName
from broker.core.topic_name import TopicName
from broker.management.caller import caller

__all__ = ["ActCommand"]


class ActCommand(BaseCommand):
    """The base class of commands that plan and apply an act."""

    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic", help="orders, or persistent://tenant/namespace/orders")
        parser.add_argument("subscription")
        parser.add_argument(
            "--partition",
            metavar="N,N-N",
            help="on a partitioned topic, only these partitions, such as 0,2,5-7 (default: all)",
        )
        self.add_consent(parser)

    def add_consent(self, parser: CommandParser) -> None:
        """Add the options --yes, --dry-run, --reason and --allow-drift."""
        parser.add_argument("--yes", action="store_true", help="apply without asking")
        parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
        parser.add_argument("--reason", default="", help="a reason for the act log")
        parser.add_argument(
            "--allow-drift",
            type=int,
            metavar="N",
            help="accept up to N more redelivered or lost messages than planned (default: the number in the plan)",
        )

    def run_act(self, kind: str, parameters: Mapping[str, object], options: Mapping[str, Any]) -> None:
        """Plan and apply an act of this kind on a subscription."""
        self.plan_and_apply(
            lambda: acts.plan(
                kind,
                topic=TopicName.parse(options["topic"]).full,
                subscription=options["subscription"],
                parameters=parameters
                if options["partition"] is None
                else {**parameters, PARTITIONS: options["partition"]},
                who=caller(),
                origin="command line",
                reason=options["reason"],
            ),
            options,
        )

    def plan_and_apply(self, plan: Callable[[], acts.ActView], options: Mapping[str, Any]) -> None:
        """Show the planned act, and apply it if the user agrees.

        Raises CommandError if planning or applying fails, or if the user cannot be asked.
        """
        try:
            act = _answered(plan())
            self._show(act, act.plan or {})
            if options["dry_run"] or not (options["yes"] or self._agrees()):
                self.stdout.write("nothing was changed")
                return
            act = _answered(
                acts.apply(
                    act.id,
                    who=caller(),
                    origin="command line",
                    reason=options["reason"],
                    allowed_drift_messages=options["allow_drift"],
                )
            )
        except (acts.ActRefused, InvalidTopicName) as error:
            raise CommandError(str(error)) from error
        result = act.result or {}
        if "words" in result:
            self.stdout.write(f"act {act.id} applied: {'; '.join(result['words'])}")
            return
        self.stdout.write(
            f"act {act.id} applied: {_messages(result['replayed_messages'])} delivered again, "
            f"{_messages(result['skipped_messages'])} skipped, {_moved(result)}"
        )
        if act.undo_until:
            self.stdout.write(
                f"`manage.py undoact {act.id}` undoes it, until {act.undo_until:%Y-%m-%d %H:%M:%S %Z}"
            )

    def _show(self, act: acts.ActView, plan: Mapping[str, Any]) -> None:
        self.stdout.write(
            f"plan of act {act.id}: {act.kind} {act.subscription} on {act.topic}".replace("  ", " ")
        )
        if "words" in plan:
            for sentence in plan["words"]:
                self.stdout.write(f"  {sentence}")
            self._show_drift(plan)
            for note in plan["notes"]:
                self.stdout.write(f"  note: {note}")
            return
        current, target = plan["current"], plan["target"]
        for part in plan.get(PARTITIONS, (plan,)):
            self._show_move(part)
        self.stdout.write(
            f"  backlog {current['backlog_messages']} -> {_messages(target['backlog_messages'])}"
        )
        self.stdout.write(f"  delivered again: {_messages(plan['replayed_messages'])}")
        self.stdout.write(f"  skipped, never delivered: {_messages(plan['skipped_messages'])}")
        self.stdout.write(f"  consumers disconnected: {plan['consumers_closed']}")
        self._show_drift(plan)
        for note in plan["notes"]:
            self.stdout.write(f"  note: {note}")

    def _show_move(self, part: Mapping[str, Any]) -> None:
        if "left_out" in part:
            return
        moved = f"mark-delete {part['current']['mark_delete']} -> {part['target']['mark_delete']}"
        if "partition" in part:
            again, skipped = part["replayed_messages"], part["skipped_messages"]
            moved = f"partition {part['partition']}: {moved}, {again} are delivered again, {skipped} skipped"
        self.stdout.write(f"  {moved}")

    def _show_drift(self, plan: Mapping[str, Any]) -> None:
        if plan.get("drift"):
            self.stdout.write(f"  {plan['drift']['words']}")

    def _agrees(self) -> bool:
        try:
            return input("apply it? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            raise CommandError(
                "the command cannot ask, because standard input has ended: add --yes to apply the act, or --dry-run to"
                " see its plan"
            ) from None


def _messages(number: int) -> str:
    return counted(number, "message", "messages")


def _moved(result: Mapping[str, Any]) -> str:
    if PARTITIONS in result:
        return f"on partitions {', '.join(str(part['partition']) for part in result[PARTITIONS])}"
    return f"mark-delete {result['before']} -> {result['after']}"


def _answered(act: acts.ActView) -> acts.ActView:
    if act.is_waiting:
        raise CommandError(
            f"act {act.id} waits: no broker answered. One that starts in time still answers it: run"
            " `manage.py runbroker`"
        )
    if act.error:
        raise CommandError(f"act {act.id} {act.state}: {act.error}")
    return act
