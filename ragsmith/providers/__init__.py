"""Providers: servers that answer for models, each reached by one endpoint with one credential.

A provider bounds how much is asked at once, obeys the pauses it is told, tries again what may pass, and stops asking
when nothing comes back. What leaves it, as a result or as an error, holds no secret.
"""

from __future__ import annotations

from ragsmith.providers.policy import Policy, Refused, Rejected, Transient
from ragsmith.providers.provider import Activity, Provider, Providers
from ragsmith.providers.redaction import redacted, remember_secret

__all__ = [
    "Activity",
    "Policy",
    "Provider",
    "Providers",
    "Refused",
    "Rejected",
    "Transient",
    "redacted",
    "remember_secret",
]
