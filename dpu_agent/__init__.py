"""The agent on the DPU: meters both ports of a link, numbers, chains and signs what it saw, and keeps it."""
