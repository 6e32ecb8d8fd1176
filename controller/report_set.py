"""A report as a set of files of one content: the bundle to verify, pages to read and print, tables to compute with."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from controller.cli_results import Writing, csv_text, html_texts, write_whole
from controller.errors import OperatorError
from controller.judgement import Judged

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""What prints a page as PDF; the first that is there."""
PRINT_TIMEOUT_S = 300
"""A report of 5,000 links takes a slow machine a minute."""


def bundle_path(output: Path) -> Path:
    """Return where the bundle goes: ``output`` itself if it is named X.bundle or is a file, else into that folder.

    Raises:
        OperatorError: the folder cannot be made.
    """
    if output.suffix == ".bundle" or output.is_file():
        return output
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"{output}: cannot be made ({error.strerror}). Name another folder, or X.bundle."
        ) from error
    return output / "report.bundle"


def write_pages(folder: Path, parts: Sequence[Judged], writing: Writing, result: str) -> Iterator[str]:
    """Write ``report.json``, ``report.csv``, and of each part ``report.html`` and ``report.pdf``; yield what was done.

    ``result`` is the JSON text that was signed, so that the file is what the bundle holds, byte by byte. Without a
    browser there is no PDF, which is said.

    Raises:
        OperatorError: a file cannot be written.
    """
    write_whole(folder / "report.json", result)
    yield f"{folder / 'report.json'}: as signed"
    write_whole(folder / "report.csv", csv_text(parts))
    yield f"{folder / 'report.csv'}: one row a link, direction and observer"
    for number, text in enumerate(html_texts(parts, writing), 1):
        page = folder / ("report.html" if len(parts) == 1 else f"report-{number}.html")
        write_whole(page, text)
        yield f"{page}: to read"
        yield print_page(page)


def print_page(page: Path) -> str:
    """Print a page beside it as PDF, and return what was done or why not."""
    browser = next((found for found in map(shutil.which, BROWSERS) if found is not None), None)
    pdf = page.with_suffix(".pdf")
    if browser is None:
        return f"{pdf}: not made, no Chromium is installed; {page.name} prints as well from any browser"
    with tempfile.TemporaryDirectory(prefix="weighbridge-print-") as profile:
        fresh = Path(profile) / "page.pdf"
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            # The page asks for nothing; should it ever, there is nobody to ask.
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--no-pdf-header-footer",
            f"--user-data-dir={profile}",
            f"--print-to-pdf={fresh}",
            page.resolve().as_uri(),
        ]
        if os.geteuid() == 0:
            # Chromium's own sandbox does not work for root; the page has no script and may load nothing.
            command.insert(1, "--no-sandbox")
        try:
            done = subprocess.run(command, capture_output=True, timeout=PRINT_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{pdf}: not made, {browser} did not print it ({error}); {page.name} prints as well from any browser"
        if done.returncode != 0 or not fresh.is_file() or not fresh.read_bytes().startswith(b"%PDF-"):
            return (
                f"{pdf}: not made, {browser} ended with {done.returncode}; {page.name} prints as well from any browser"
            )
        try:
            shutil.copyfile(fresh, pdf.with_suffix(".pdf.new"))
            pdf.with_suffix(".pdf.new").replace(pdf)
        except OSError as error:
            raise OperatorError(
                f"{pdf}: cannot be written ({error.strerror}). Check the folder and its rights."
            ) from error
    return f"{pdf}: to print, {pdf.stat().st_size} bytes"
