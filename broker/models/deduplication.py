"""How far each producer name is, where a topic drops messages that were sent twice."""

from __future__ import annotations

from django.db import models

from broker.models.topics import Topic

__all__ = ["DeduplicatedProducer", "Deduplication"]


class Deduplication(models.Model):
    """Up to where the deduplication rows of a topic take its log into account. A new owner reads the rest again."""

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()

    class Meta:
        db_table = "vela_deduplication"

    def __str__(self) -> str:
        return f"{self.topic_id} through {self.ledger_id}:{self.entry_id}"


class DeduplicatedProducer(models.Model):
    """How far a producer name is on a topic whose messages are deduplicated."""

    pk = models.CompositePrimaryKey("topic_id", "producer_name")
    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False)
    producer_name = models.TextField()
    sequence_id = models.BigIntegerField()  # of its last whole message, -1 = none
    chunk_sequence_id = models.BigIntegerField()  # of the large message under way, -1 = none
    chunk_id = models.IntegerField()  # of its last part
    seen_ms = models.BigIntegerField()  # when something of it was stored last

    class Meta:
        db_table = "vela_deduplicated_producer"

    def __str__(self) -> str:
        return f"{self.producer_name} of {self.topic_id} at {self.sequence_id}"
