"""The shop's tables."""

from django.db import models


class Order(models.Model):
    """An article that a customer ordered, and how many pieces."""

    article = models.TextField()
    pieces = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.pieces} × {self.article}"


class Invoice(models.Model):
    """An order's invoice. The handler writes one for each order, however often the message comes."""

    order = models.OneToOneField(Order, models.CASCADE)

    def __str__(self) -> str:
        return f"invoice of {self.order}"
