"""What can go wrong with a rig, by whose fault it is (the tree of ``controller.errors``).

RigError            the rig cannot be built, entered or torn down     exit code 2
├── PreflightError  the machine lacks tools, kernel features, rights
└── TeardownError   something of the rig is still there
RigFileError        the rig file is wrong at a place (an OperatorError)
"""

from __future__ import annotations

from controller.errors import SiteFileError, WeighbridgeError


class RigError(WeighbridgeError):
    """The rig cannot be built, entered or torn down."""


class PreflightError(RigError):
    """The machine lacks something that a rig needs; every missing thing is named."""


class TeardownError(RigError):
    """After tearing down, something of the rig is still there."""


class RigFileError(SiteFileError):
    """The rig file is wrong at a place; same form as a wrong site file."""
