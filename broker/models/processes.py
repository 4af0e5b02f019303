"""The processes of Vela, and when each was last seen."""

from __future__ import annotations

from django.db import models

__all__ = ["BrokerProcess", "Heartbeat"]


class BrokerProcess(models.Model):
    """The broker process that is running, or that ran last."""

    id = models.SmallIntegerField(primary_key=True)  # Always 1, because a database has one broker
    host = models.TextField()
    pid = models.IntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)  # NULL while the broker runs, and after a crash
    http_url = models.TextField()
    pulsar_url = models.TextField()

    class Meta:
        db_table = "vela_broker"

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}"


class Heartbeat(models.Model):
    """The last sign of life of `beat`, `worker` or `pipeline`."""

    name = models.CharField(max_length=32, primary_key=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "vela_heartbeat"

    def __str__(self) -> str:
        return f"{self.name} {self.at}"
