"""The in-kernel meter: every frame at a port's ingress, by the millisecond, class and peer."""
