"""Load windows: budgeted, one-directional exceptions to the normal limit, from declared sources."""
