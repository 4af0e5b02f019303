"""The highest sequence ids of producers on topics with deduplication."""

from __future__ import annotations

from django.db import models

from broker.models.topics import Topic

__all__ = ["DeduplicatedProducer", "Deduplication"]


class Deduplication(models.Model):
    """The position up to which sequence ids are stored. A topic's new owner reads the entries after this position."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_deduplication"

    def __str__(self) -> str:
        return f"{self.topic_id} through {self.ledger_id}:{self.entry_id}"


class DeduplicatedProducer(models.Model):
    """The sequence ids of one producer name on a topic."""

    pk = models.CompositePrimaryKey("topic_id", "producer_name")
    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    producer_name = models.TextField()
    sequence_id = models.BigIntegerField()  # Highest sequence id of a complete message; -1 means none
    chunk_sequence_id = models.BigIntegerField()  # Sequence id of the latest chunked message; -1 means none
    chunk_id = models.IntegerField()
    seen_ms = models.BigIntegerField()

    class Meta:
        db_table = "vela_deduplicated_producer"

    def __str__(self) -> str:
        return f"{self.producer_name} of {self.topic_id} at {self.sequence_id}"
