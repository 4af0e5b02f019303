"""A user's second factor: codes of an authenticator app (TOTP, RFC 6238), and recovery codes."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
import time
from typing import Final
from urllib.parse import quote, urlencode

import segno
from cryptography.fernet import Fernet, InvalidToken
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django_otp.oath import TOTP

from console.models import SecondFactor

__all__ = [
    "RECOVERY_CODES",
    "FactorRefused",
    "accepts",
    "address_of",
    "factor_of",
    "new_secret",
    "picture_of",
    "readable",
    "remove",
    "renew_recovery_codes",
    "sealed",
    "switch_on",
    "unsealed",
]

RECOVERY_CODES: Final = 10

_SECRET_BYTES: Final = 20
_CLOCK_STEPS: Final = 1  # The phone's clock may differ by one step of 30 s
_NO_STEP: Final = -1
_CODE: Final = re.compile(r"[0-9]{6}")

log = logging.getLogger(__name__)


class FactorRefused(Exception):
    """The second factor was not changed."""


def new_secret() -> str:
    """Return a new secret in Base32."""
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def readable(secret: str) -> str:
    """Return a secret in groups of four characters."""
    return " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))


def address_of(name: str, secret: str) -> str:
    """Return the `otpauth:` address for the QR code."""
    query = urlencode({"secret": secret, "issuer": "Vela"})
    return f"otpauth://totp/Vela:{quote(name, safe='')}?{query}"


def picture_of(address: str) -> SafeString:
    """Return the QR code as SVG without style attributes, which the Content-Security-Policy refuses."""
    code = segno.make(address, error="m", micro=False)
    return SafeString(code.svg_inline(omitsize=True, svgclass="qr", lineclass=None, light="#fff"))


def factor_of(user: AbstractBaseUser) -> SecondFactor | None:
    """Return the stored second factor of a user."""
    return SecondFactor.objects.filter(user_id=user.pk).first()


def switch_on(user: AbstractBaseUser, secret: str, code: str) -> list[str]:
    """Store the second factor and return the recovery codes, which cannot be read again.

    Raises FactorRefused if the code is wrong or the user already has a second factor.
    """
    step = _step_of(secret, code, after=_NO_STEP) if secret else None
    if step is None:
        raise FactorRefused(_("this is not the code that the app shows now"))
    codes = _new_codes()
    try:
        with transaction.atomic():
            SecondFactor.objects.create(
                user_id=user.pk, secret=sealed(secret), last_step=step, recovery_codes=_digests(codes)
            )
    except IntegrityError:
        raise FactorRefused(_("there is a second factor already")) from None
    return codes


def accepts(user: AbstractBaseUser, given: str) -> bool:
    """Return whether the given code is valid. Each code is valid only once."""
    with transaction.atomic():
        factor = SecondFactor.objects.select_for_update().filter(user_id=user.pk).first()
        return factor is not None and (_uses_code(factor, given) or _uses_recovery_code(factor, given))


def renew_recovery_codes(user: AbstractBaseUser) -> list[str]:
    """Replace the recovery codes and return the new ones."""
    codes = _new_codes()
    SecondFactor.objects.filter(user_id=user.pk).update(recovery_codes=_digests(codes))
    return codes


def remove(user: AbstractBaseUser) -> bool:
    """Remove the second factor. Return whether the user had one."""
    return bool(SecondFactor.objects.filter(user_id=user.pk).delete()[0])


def sealed(secret: str) -> str:
    """Encrypt a secret with a key derived from Django's SECRET_KEY."""
    return _seal().encrypt(secret.encode()).decode()


def unsealed(text: str) -> str:
    """Decrypt a secret. Raises InvalidToken if the text cannot be decrypted."""
    return _seal().decrypt(text.encode()).decode()


def _seal() -> Fernet:
    key = salted_hmac("console.second_factor", "", algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(key))


def _uses_code(factor: SecondFactor, given: str) -> bool:
    try:
        secret = unsealed(factor.secret)
    except InvalidToken:
        log.warning(
            "the second factor of user %s cannot be read, because VELA_SECRET_KEY has changed since it was set up:"
            " use a recovery code, or manage.py removesecondfactor",
            factor.user_id,
        )
        return False
    step = _step_of(secret, given, after=factor.last_step)
    if step is None:
        return False
    factor.last_step = step
    factor.save(update_fields=["last_step"])
    return True


def _uses_recovery_code(factor: SecondFactor, given: str) -> bool:
    digest = _digest(given)
    if digest not in factor.recovery_codes:
        return False
    factor.recovery_codes.remove(digest)
    factor.save(update_fields=["recovery_codes"])
    return True


def _step_of(secret: str, given: str, *, after: int) -> int | None:
    code = re.sub(r"\s", "", given)
    if not _CODE.fullmatch(code):
        return None
    totp = TOTP(base64.b32decode(secret))
    totp.time = time.time()
    return totp.t() if totp.verify(int(code), tolerance=_CLOCK_STEPS, min_t=after + 1) else None


def _new_codes() -> list[str]:
    texts = [base64.b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(RECOVERY_CODES)]
    return ["-".join(text[start : start + 4] for start in range(0, 16, 4)) for text in texts]


def _digests(codes: list[str]) -> list[str]:
    return [_digest(code) for code in codes]


def _digest(code: str) -> str:
    plain = re.sub(r"[\s-]", "", code).lower()
    return hashlib.sha256(plain.encode(errors="replace")).hexdigest()
