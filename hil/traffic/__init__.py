"""Real traffic for a rig, made inside its machines: ``python -m hil.traffic.NAME`` prints one JSON object at the end.

inference   requests and streamed answers between a front end and model servers, tens of kB/s
allreduce   a ring all-reduce between nodes: training
transfer    an exact number of bytes over TCP: a model load
blast       UDP at a given rate: traffic that does not slow down when it is dropped
frames      raw Ethernet frames of known length and number: a known weight

Every generator is bounded in time and bytes and counts what it handed to the kernel. Times are nanoseconds of
CLOCK_MONOTONIC, which all machines of a rig share.
"""
