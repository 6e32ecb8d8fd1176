"""Collection: one task a device that looks, writes down what it saw or why it saw nothing, and never gives up.

``agents`` streams an agent's frames and exchanges clocks, ``switches`` polls switch ports, ``hosts`` scrapes the
hosts' own claims; ``writer`` puts entries on the disk in groups, ``narrator`` tells the operator, ``run`` keeps all of
them going.
"""

import os

# gRPC's core writes connection trouble to stderr in its own words. It reads this once, when it is loaded; what the
# operator needs to know of it comes through the narrator.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
