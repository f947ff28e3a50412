"""Alerts: from verdicts to incidents, from incidents to notices, from notices to receivers."""

from lagwatch.notify.alerts import Alerts

__all__ = ["Alerts"]
