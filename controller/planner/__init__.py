"""The planner: what a limit does to training, and what inference needs. Pure: no clock, socket or file (ADR 130)."""
