"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """What somebody wants."""

    article = models.TextField()
    pieces = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.pieces} × {self.article}"


class Invoice(models.Model):
    """Written by the handler; one an order, however often the message comes."""

    order = models.OneToOneField(Order, models.CASCADE)

    def __str__(self) -> str:
        return f"invoice of {self.order}"
