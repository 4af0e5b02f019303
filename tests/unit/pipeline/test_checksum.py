"""The checksum of messages that does not depend on their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.checksum import Checksum, message_digest

texts = st.text(max_size=5)
messages = st.tuples(
    st.binary(max_size=8),
    st.none() | st.binary(max_size=3),
    st.dictionaries(texts, texts, max_size=3),
    st.integers(0, 3),
)


@given(data=st.data(), published=st.lists(messages, max_size=10))
def test_the_order_of_the_messages_does_not_matter(
    data: st.DataObject, published: list[tuple[bytes, bytes | None, dict[str, str], int]]
) -> None:
    shuffled = data.draw(st.permutations(published))
    cut = data.draw(st.integers(0, len(published)))
    parts = [
        Checksum.of_digests(message_digest(*each) for each in part)
        for part in (shuffled[:cut], shuffled[cut:])
    ]
    assert parts[0] + parts[1] == Checksum.of_digests(message_digest(*each) for each in published)


@given(one=messages, other=messages)
def test_different_messages_have_different_digests(
    one: tuple[bytes, bytes | None, dict[str, str], int],
    other: tuple[bytes, bytes | None, dict[str, str], int],
) -> None:
    assert (message_digest(*one) == message_digest(*other)) == (one == other)


def test_a_repeated_message_changes_the_checksum() -> None:
    digest = message_digest(b"x", None, {}, 0)
    assert Checksum.of_digests([digest, digest]) != Checksum.of_digests([digest])
    assert Checksum.of_digests([digest, digest]).digest != 0
    assert message_digest(b"x", None, {}, 0) != message_digest(b"x", b"", {}, 0)


def test_a_checksum_is_printed_as_sixteen_digits() -> None:
    assert str(Checksum(messages=1, digest=0xAB)) == "00000000000000ab"
