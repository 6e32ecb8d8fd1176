"""What both parties signed: the limits, the terms of load windows, and the arithmetic that compares them."""
