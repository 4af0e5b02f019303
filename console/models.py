"""The console's own tables."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy

__all__ = ["Grant", "Identity", "Preferences", "Role", "SavedView", "SecondFactor"]


class Role(models.IntegerChoices):
    """The rights of a user in some namespaces. Each role includes the rights of the roles before it."""

    VIEWER = 1, gettext_lazy("viewer")  # Sees names, numbers and operators' changes
    READER = 2, gettext_lazy("reader")  # Sees keys, properties and payloads of messages
    OPERATOR = 3, gettext_lazy("operator")  # Plans, applies and undoes changes
    ADMIN = 4, gettext_lazy("admin")  # Sets user roles and namespace policies, and deletes topics

    @property
    def word(self) -> str:
        """The role's untranslated name."""
        return self.name.lower()


class Grant(models.Model):
    """A user's role in the namespaces that match `*`, `tenant/*` or `tenant/namespace`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    role = models.SmallIntegerField(choices=Role)
    pattern = models.TextField()
    # True if the grant comes from a group at the OpenID Connect server. Each login renews such grants.
    from_login = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_grant"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "pattern", "from_login"], name="vela_grant_pattern")
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {Role(self.role).word} of {self.pattern}"


class Preferences(models.Model):
    """One user's time zone and language."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    time_zone = models.TextField(default="UTC")
    language = models.TextField(default="")  # If empty, Django's LocaleMiddleware chooses the language

    class Meta:
        db_table = "vela_preferences"

    def __str__(self) -> str:
        return f"{self.user_id}: {self.time_zone} {self.language}".rstrip()


class SavedView(models.Model):
    """The filters of a list, saved under a name."""

    # The constraint vela_saved_view_name serves as this column's index.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False)
    path = models.TextField()
    name = models.TextField()
    query = models.TextField()
    # Namespace patterns, separated by spaces. If the field is empty, only the owner sees the view.
    shared_in = models.TextField(default="")
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "vela_saved_view"
        indexes: ClassVar = [
            models.Index(fields=["path"], name="vela_saved_view_shared", condition=~models.Q(shared_in=""))
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "path", "name"], name="vela_saved_view_name"),
            models.UniqueConstraint(
                fields=["user", "path"], name="vela_saved_view_default", condition=models.Q(is_default=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.name} of {self.path}"


class Identity(models.Model):
    """A user's identity at the OpenID Connect server. The user cannot log in with a password."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="identity"
    )
    issuer = models.TextField()
    subject = models.TextField()

    class Meta:
        db_table = "vela_identity"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="vela_identity_subject")
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.subject} at {self.issuer}"


class SecondFactor(models.Model):
    """The authenticator app of one user.

    The table's name does not begin with `vela_`, so that the database role VELA_READ_ROLE cannot read the table.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="second_factor"
    )
    secret = models.TextField()  # Encrypted
    last_step = models.BigIntegerField()  # Time step of the last accepted code, so that no code works twice
    recovery_codes = models.JSONField()  # SHA-256 of each unused code
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_second_factor"

    def __str__(self) -> str:
        return f"{self.user_id}: since {self.created_at}"
