"""What people read: the HTML report, the table on the terminal, the CSV."""

from controller.report.html import render_html

__all__ = ["render_html"]
