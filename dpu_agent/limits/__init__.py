"""What the agent lets through: orders, the limiters that carry them out, and the leases that they follow from."""
