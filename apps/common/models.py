from django.db import models


class LeaderLease(models.Model):
    """Who runs the control loops. `fence` grows each time the leadership changes hands, and never falls."""

    name = models.CharField(max_length=50, primary_key=True)
    holder = models.CharField(max_length=100)
    fence = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.name} led by {self.holder}"
