"""The running processes."""

from __future__ import annotations

from django.db import models

__all__ = ["BrokerProcess", "Heartbeat"]


class BrokerProcess(models.Model):
    """The process with the broker lock, so that a second broker and the console can name it."""

    id = models.SmallIntegerField(primary_key=True)  # 1: one broker per database in this release
    host = models.TextField()
    pid = models.IntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()  # once a second while it runs
    stopped_at = models.DateTimeField(null=True)  # a clean stop
    http_url = models.TextField()
    pulsar_url = models.TextField()

    class Meta:
        db_table = "vela_broker"

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}"


class Heartbeat(models.Model):
    """When a periodic part last ran: `beat` sent a tick, `worker` ran one, or `pipeline` looked for runs."""

    name = models.CharField(max_length=32, primary_key=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "vela_heartbeat"

    def __str__(self) -> str:
        return f"{self.name} {self.at}"
