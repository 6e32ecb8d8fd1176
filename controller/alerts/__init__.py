"""Alerts: findings of rules and detectors told to people, once, until they are over (ADR 161)."""
