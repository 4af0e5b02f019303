"""The console's own tables: roles, identities and second factors of users, and their preferences and saved views."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy

__all__ = ["Grant", "Identity", "Preferences", "Role", "SavedView", "SecondFactor"]


class Role(models.IntegerChoices):
    """The rights of a user in some namespaces. Each role includes the rights of the roles before it."""

    VIEWER = 1, gettext_lazy("viewer")  # names, numbers, acts
    READER = 2, gettext_lazy("reader")  # keys, properties and payloads of messages
    OPERATOR = 3, gettext_lazy("operator")  # plan, apply and undo acts
    ADMIN = 4, gettext_lazy("admin")  # roles of users, policies of namespaces, deleting topics

    @property
    def word(self) -> str:
        """The role as commands, forms, settings and the act log write it. Pages show `label`."""
        return self.name.lower()


class Grant(models.Model):
    """A role that one user has in the namespaces of one pattern: `*`, `tenant/*` or `tenant/namespace`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    role = models.SmallIntegerField(choices=Role)
    pattern = models.TextField()
    # True if a group at the login server gives this grant. Each login sets such grants again.
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
    """One user's choices for the pages."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    time_zone = models.TextField(default="UTC")  # a name of the IANA database
    language = models.TextField(default="")  # empty: the choice of Django's LocaleMiddleware

    class Meta:
        db_table = "vela_preferences"

    def __str__(self) -> str:
        return f"{self.user_id}: {self.time_zone} {self.language}".rstrip()


class SavedView(models.Model):
    """The filters of a list, saved under a name.

    A view gives no rights: the list leaves out rows that a user may not see.
    """

    # The first constraint below serves as this column's index.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False)
    path = models.TextField()  # of the list
    name = models.TextField()
    query = models.TextField()  # filters and sort order, but not the page of the list
    # Patterns of namespaces, separated by spaces. Operators in all of them see the view. Empty: only its owner sees it.
    shared_in = models.TextField(default="")
    is_default = models.BooleanField(default=False)  # opened when its owner opens the list without filters
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
    """A user's identity at the login server. Such a user cannot log in with a password."""

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

    VELA_READ_ROLE cannot read the table, because the table's name does not begin with `vela_`.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="second_factor"
    )
    secret = models.TextField()  # encrypted
    last_step = models.BigIntegerField()  # time step of the last accepted code: no code is accepted twice
    recovery_codes = models.JSONField()  # the SHA-256 of each unused code
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_second_factor"

    def __str__(self) -> str:
        return f"{self.user_id}: since {self.created_at}"
