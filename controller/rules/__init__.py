"""Rules and shapes: what traffic exceeds, and what it looks like. Pure: no clock, socket or file (ADR 120)."""
