"""Notifications become keys, and only known keys name groups."""

from __future__ import annotations

import pytest

from console.live.feed import _keys_of, group_of, is_key


@pytest.mark.parametrize(
    ("name", "payload", "keys"),
    [
        ("vela_page", '["topic:5", "sub:9"]', ["topic:5", "sub:9"]),
        ("vela_page", '["topic:5", 7]', ["topic:5"]),
        ("vela_page", '{"topic": 5}', []),
        ("vela_page", "nonsense", []),
        ("vela_act_done", "12", ["acts", "act:12"]),
    ],
)
def test_notifications_become_keys(name: str, payload: str, keys: list[str]) -> None:
    assert _keys_of(name, payload) == keys


@pytest.mark.parametrize("key", ["topic:5", "sub:9223372036854775807", "act:7", "acts"])
def test_a_key_has_a_group_that_the_channel_layer_accepts(key: str) -> None:
    assert is_key(key)
    assert group_of(key) == f"page.{key.replace(':', '.')}"


@pytest.mark.parametrize(
    "key", ["", "topic", "topic:", "topic:x", "topic:٣", "acts\n", "sub:1\n", "page", "sub:-1"]
)
def test_anything_else_is_not_a_key(key: str) -> None:
    assert not is_key(key)
