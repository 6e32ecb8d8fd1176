"""Figures: what the project can do, measured, one JSON line each. ``python -m hil.bench [AREA]``."""
