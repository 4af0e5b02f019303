"""Files of passwords: broker.core.access.passwords."""

from __future__ import annotations

import bcrypt
import pytest

from broker.core.access.passwords import PasswordFileInvalid, fits, read_passwords

# Made with `openssl passwd -apr1 -salt abcdefgh`. The lengths cover every path through the digest's blocks.
APR1 = {
    b"secret": "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
    b"x": "$apr1$abcdefgh$82JubPF2dQkt1tVfvLnXS.",
    b"a" * 16: "$apr1$abcdefgh$c4QKx3ASrNNxhmocuj.xU.",
    b"a" * 40: "$apr1$abcdefgh$7LLwOaA34rPr3m6GkAUqO/",
    "ü€".encode(): "$apr1$abcdefgh$FaPceL/Wi7hK1GX/ZggdY.",
}
BCRYPT = bcrypt.hashpw(b"secret", b"$2b$04$abcdefghijklmnopqrstuu").decode()  # the same in each worker


@pytest.mark.parametrize(("password", "stored"), APR1.items())
def test_apr1_is_what_openssl_and_htpasswd_write(password: bytes, stored: str) -> None:
    user = read_passwords(f"app:{stored}\n")["app"]
    assert fits(password, user)
    assert not fits(password + b"x", user)
    assert not fits(b"", user)


@pytest.mark.parametrize("kind", ["$2a$", "$2b$", "$2y$"])
def test_bcrypt_counts_in_the_variants_that_tools_write(kind: str) -> None:
    user = read_passwords(f"# made by hand\n\napp:{BCRYPT.replace('$2b$', kind)}")["app"]
    assert fits(b"secret", user)
    assert not fits(b"Secret", user)


def test_a_password_that_the_hash_would_cut_does_not_fit() -> None:
    long = b"p" * 72
    bcrypted = read_passwords(f"app:{bcrypt.hashpw(long, bcrypt.gensalt(4)).decode()}")["app"]
    assert fits(long, bcrypted)
    assert not fits(long + b"more", bcrypted)
    assert not fits(b"secret\0", read_passwords(f"app:{BCRYPT}")["app"])
    assert not fits(b"p" * 1025, read_passwords(f"app:{APR1[b'x']}")["app"])


@pytest.mark.parametrize("last", "./059AOZaeuz")
def test_a_hash_that_is_taken_can_be_checked(last: str) -> None:
    text = "zed:$2y$04$" + "a" * 21 + last + "a" * 31
    try:
        user = read_passwords(text)["zed"]
    except PasswordFileInvalid:
        with pytest.raises(ValueError, match="salt"):
            bcrypt.checkpw(b"x", text.removeprefix("zed:").encode())
    else:
        assert not fits(b"x", user)


def test_the_id_of_a_user_changes_with_the_password_only() -> None:
    before = read_passwords(f"a:{BCRYPT}\nb:{APR1[b'x']}")
    after = read_passwords(f"b:{APR1[b'secret']}\na:{BCRYPT}")
    assert before["a"].id == after["a"].id
    assert before["b"].id != after["b"].id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no users"),
        ("# nobody", "no users"),
        ("app", "line 1 is not user:hash"),
        (":" + BCRYPT, "line 1 is not user:hash"),
        ("app:secret", "neither bcrypt nor apr1"),
        ("app:rqXexS6ZhobKA", "neither bcrypt nor apr1"),  # crypt by DES
        ("app:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "neither bcrypt nor apr1"),
        # No salt ends like this, so bcrypt would raise.
        ("zed:$2y$10$" + "a" * 53, "neither bcrypt nor apr1"),
        ("zed:$2y$\u0661\u0660$" + "." * 53, "neither bcrypt nor apr1"),  # Arabic digits
        ("zed:$apr1$\u00fc$" + "a" * 22, "neither bcrypt nor apr1"),
        (f"app:{BCRYPT}\napp:{BCRYPT}", "line 2 names 'app'"),
        (f"app:{BCRYPT.replace('$04$', '$15$')}", "the cost 15"),
        (f"app:{BCRYPT.replace('$04$', '$00$')}", "the cost 0"),
    ],
)
def test_a_file_that_cannot_be_used_says_which_line_and_shows_no_hash(text: str, said: str) -> None:
    with pytest.raises(PasswordFileInvalid, match=said) as refused:
        read_passwords(text)
    assert BCRYPT[7:] not in str(refused.value)
