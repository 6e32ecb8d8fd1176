"""The rig: the same scenarios on Linux namespaces with real daemons, or on hardware described in a rig file."""
