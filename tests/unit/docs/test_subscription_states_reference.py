"""docs/reference/subscription-states.md: every state under its stored number, in the order of the enum."""

from __future__ import annotations

from typing import get_args, get_type_hints

from broker.core.subscription.standing import SubscriptionState
from console.api.topics.topics import ListedTopics
from console.words.subscriptions import STATE_WORDS
from tests.unit.docs.pages import page, rows
from vela.cli.commands.topics.topics import STATES


def test_the_page_lists_every_state_and_no_other() -> None:
    documented = [(cells[0], cells[1].strip("*")) for cells in rows(page("reference/subscription-states.md"))]
    assert documented == [(str(state.value), state.words) for state in SubscriptionState]


def test_the_console_the_command_line_and_the_api_know_every_state() -> None:
    words = tuple(state.words for state in SubscriptionState)
    assert words == STATE_WORDS == STATES
    assert get_args(get_type_hints(ListedTopics)["state"]) == ("", *words)
