"""The shape detectors: each a pure function from byte series to at most one finding, with its null hypothesis."""
