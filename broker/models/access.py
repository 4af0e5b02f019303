"""Granted permissions, and the tokens that Vela issued or revoked."""

from __future__ import annotations

from django.db import models

__all__ = ["AccessToken", "GrantedPermission"]


class GrantedPermission(models.Model):
    """One permission of one role on a tenant, a namespace, a topic or a subscription."""

    pk = models.CompositePrimaryKey("tenant", "namespace", "topic", "subscription", "role", "permission")
    tenant = models.TextField()
    namespace = models.TextField(db_default="")
    topic = models.TextField(db_default="")  # Full name, without a partition
    # The permission covers the subscriptions of this name on all topics of the namespace.
    subscription = models.TextField(db_default="")
    role = models.TextField()
    permission = models.CharField(max_length=16)

    class Meta:
        db_table = "vela_permission"

    def __str__(self) -> str:
        return f"{self.role} may {self.permission}"


class AccessToken(models.Model):
    """The record of a token. The token itself is not stored."""

    id = models.TextField(primary_key=True)  # The token's claim `jti`
    role = models.TextField()  # Empty if Vela revoked the token but did not issue it
    created_by = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)  # NULL if the token never expires or Vela did not issue it
    revoked_by = models.TextField(db_default="")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "vela_token"

    def __str__(self) -> str:
        return f"{self.role} {self.id}"
