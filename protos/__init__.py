"""The vocabulary every part speaks: messages on the wire and the small kernel of shared types.

``protos.v1`` is generated from ``protos/v1/*.proto``. The modules beside it are hand-written and
use the standard library and ``cryptography`` only; ``protos.wire`` alone converts between the two.
"""
