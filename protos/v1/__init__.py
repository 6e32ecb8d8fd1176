"""Generated messages of the protobuf package ``weighbridge.v1``. Do not edit; run ``make protos``."""
