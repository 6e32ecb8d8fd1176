"""What people read: the HTML report and the table on the terminal."""

from controller.report.html import render_html
from controller.report.table import render_table

__all__ = ["render_html", "render_table"]
