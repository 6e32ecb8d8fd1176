"""Recorded series from other systems' files: Grafana CSV, Prometheus JSON, OpenMetrics text, plain CSV (ADR 121)."""
