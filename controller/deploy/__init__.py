"""Puts the agent on DPUs over SSH: the bundle it travels in, the steps, and proof that what was sent runs."""
