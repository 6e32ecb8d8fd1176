"""A labelled corpus of traffic, seeded: honest classes and ways to train, to score detectors on (ADR 122)."""
