"""The cross-check as one self-contained HTML file: no script, no network, no font from elsewhere.

Names in a report come from the prover's site and from devices: the template escapes everything it is given, and the
page's own policy forbids scripts and requests should that ever fail.
"""

from __future__ import annotations

from importlib.resources import files

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from controller.crosscheck.model import CrossCheck, SiteEvidence
from controller.report.view import build


def render_html(
    result: CrossCheck, evidence: SiteEvidence, *, generated_ns: int, version: str, clock_error_ns: int | None
) -> str:
    """Return the report of one cross-check. The same arguments give the same text.

    Args:
        result: what the cross-check found.
        evidence: what it looked at; the plots and the gaps are drawn from it.
        generated_ns: UTC time of writing, nanoseconds since 1970.
        version: of Weighbridge.
        clock_error_ns: most by which the controller's timeline was off its own wall clock; None: never noted.
    """
    here = files("controller.report")
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(here.joinpath("report.html.j2").read_text("utf-8"))
    view = build(result, evidence, generated_ns=generated_ns, version=version, clock_error_ns=clock_error_ns)
    style = Markup(here.joinpath("report.css").read_text("utf-8"))  # noqa: S704  # our own file
    return template.render(view=view, style=style)
