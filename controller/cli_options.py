"""What several commands share: options, and how they count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SITE_FILE = Path("site.yaml")

SiteFile = Annotated[
    Path,
    typer.Option(
        "--site",
        metavar="SITE.yaml",
        envvar="WEIGHBRIDGE_SITE",
        help="The site file; else the one that WEIGHBRIDGE_SITE names; else ./site.yaml.",
        show_default=False,
        show_envvar=False,
    ),
]
"""``--site``, for commands that work on a site. The default is :data:`SITE_FILE`."""

SiteFileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SITE.yaml",
        envvar="WEIGHBRIDGE_SITE",
        help="The site file; else the one that WEIGHBRIDGE_SITE names; else ./site.yaml.",
        show_default=False,
        show_envvar=False,
    ),
]
"""The same as an argument, for commands about the site file itself."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 switch``, ``2 switches``: the count with the word in its number."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"
