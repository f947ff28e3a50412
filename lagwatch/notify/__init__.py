"""Alerts: from verdicts to incidents, from incidents to notices, from notices to receivers."""
