from rest_framework import serializers

from apps.identity.models import SignInSession


class SessionSerializer(serializers.ModelSerializer[SignInSession]):
    class Meta:
        model = SignInSession
        fields = ["id", "started_at", "seen_at", "address", "browser"]
