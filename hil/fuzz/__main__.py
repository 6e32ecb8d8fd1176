"""``python -m hil.fuzz [AREA] [--seconds N]``: fuzz every target of an area for a bounded time; exit code 1: one broke.

Each target runs in a process of its own, which ends at the first input that makes it raise anything but what it may,
take longer than a second or more than 500 MB (Python, the fuzzer and its corpus included). Such an input is kept in
``build/fuzz/`` and named.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

AREAS = ("evidence", "switch")
SECONDS = 120
"""For a whole area, shared by its targets."""

MAX_INPUT_BYTES = 65_536
SLOWEST_S = 5
MOST_MEMORY_MB = 500

_FOLDER = Path("build/fuzz")


def main(arguments: list[str]) -> int:
    """Fuzz what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz what reads what others send.")
    parser.add_argument("area", nargs="?", default="evidence", choices=AREAS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for the whole area")
    parser.add_argument("--target", help="this one, in this process; for the program itself")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: atheris is not installed: pip install -c constraints.txt '.[fuzz]' (Linux, Python 3.11)")
        return 2
    module = f"hil.fuzz.{options.area}_area"
    if options.target is not None:
        return _fuzz(module, options.target, options.seconds)
    area = importlib.import_module(module)
    each = max(1, options.seconds // len(area.TARGETS))
    broken = [target for target in area.TARGETS if not _apart(options.area, target, each)]
    print(f"fuzz: {len(area.TARGETS)} targets, {len(broken)} broken {' '.join(broken)}".rstrip())
    return 1 if broken else 0


def _apart(area: str, target: str, seconds: int) -> bool:
    begin = time.monotonic()
    command = [sys.executable, "-m", "hil.fuzz", area, "--target", target, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    runs = [line for line in done.stderr.splitlines() if "stat::number_of_executed_units" in line]
    count = runs[-1].split()[-1] if runs else "?"
    outcome = "BROKEN" if done.returncode else "held"
    print(f"{target:12} {count:>10} inputs in {time.monotonic() - begin:5.1f} s: {outcome}")
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-4000:])
    return done.returncode == 0


def _fuzz(module: str, target: str, seconds: int) -> int:
    import atheris  # noqa: PLC0415  optional

    with atheris.instrument_imports(include=["controller", "switch"]):
        area: Any = importlib.import_module(module)
    corpus = _FOLDER / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(area.seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    read = area.TARGETS[target]

    def once(raw: bytes) -> None:
        try:
            read(raw)
        except area.EXPECTED:
            return

    limits = [f"-max_total_time={seconds}", f"-max_len={MAX_INPUT_BYTES}", f"-timeout={SLOWEST_S}"]
    limits += [f"-rss_limit_mb={MOST_MEMORY_MB}", f"-artifact_prefix={_FOLDER}/{target}-", "-print_final_stats=1"]
    atheris.Setup(["fuzz", *limits, str(corpus)], once)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
