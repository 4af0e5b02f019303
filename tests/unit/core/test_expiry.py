"""When unused subscriptions and topics expire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.policies import InactiveTopicMode, Policies
from broker.core.subscription.expiry import Use, is_expired, is_inactive

USES = st.builds(
    Use, consumers=st.integers(0, 1), last_used_ms=st.integers(0, 100), backlog_messages=st.integers(0, 1)
)


@given(USES, st.integers(0, 100), st.integers(100, 300))
def test_an_unused_subscription_expires_after_its_time(use: Use, expiry_ms: int, now_ms: int) -> None:
    expired = is_expired(use, Policies(subscription_expiry_ms=expiry_ms), now_ms)
    assert expired == (expiry_ms > 0 and use.consumers == 0 and use.last_used_ms + expiry_ms < now_ms)


@given(
    st.lists(USES, max_size=3),
    st.sampled_from(InactiveTopicMode),
    st.integers(0, 1),
    st.integers(0, 100),
    st.integers(100, 300),
)
def test_a_topic_is_inactive_only_when_its_producers_and_subscriptions_are(
    uses: list[Use], mode: InactiveTopicMode, producers: int, last_used_ms: int, now_ms: int
) -> None:
    policies = Policies(delete_inactive_topics=True, inactive_topic_ms=100, inactive_topic_mode=mode)

    def ask(policies: Policies) -> bool:
        return is_inactive(uses, policies, producers=producers, last_used_ms=last_used_ms, now_ms=now_ms)

    expected = (
        producers == 0
        and all(use.consumers == 0 and use.backlog_messages == 0 for use in uses)
        and (mode is InactiveTopicMode.SUBSCRIPTIONS_CAUGHT_UP or not uses)
        and all(used_ms + 100 < now_ms for used_ms in [last_used_ms, *(use.last_used_ms for use in uses)])
    )
    assert ask(policies) == expected
    assert not ask(Policies())
