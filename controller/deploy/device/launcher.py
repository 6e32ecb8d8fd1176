"""Start the agent from the bundle this file lies in, with nothing of the machine's own packages.

1. Start again in isolated mode: no PYTHON* variables, no site-packages, no bytecode written into the release.
2. Refuse another Python or processor than the bundle was built for: its compiled modules would fail less clearly.
3. Import only from the bundle, then hand over to the agent's command line.
"""

from __future__ import annotations

import os
import sys

ISOLATED = ("-I", "-S", "-B")


def main() -> int:
    """Run the agent; return its exit code."""
    if not (sys.flags.isolated and sys.flags.no_site and sys.flags.dont_write_bytecode):
        os.execv(sys.executable, [sys.executable, *ISOLATED, __file__, *sys.argv[1:]])  # noqa: S606  ourselves again
    # Not before: what is imported until here may come from wherever PYTHONPATH points.
    import json  # noqa: PLC0415
    import platform  # noqa: PLC0415
    from importlib import import_module  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    # The real path, not the `current` link: a running agent must not see the next release's modules.
    root = Path(__file__).resolve().parent
    manifest = json.loads((root / "manifest.json").read_text("utf-8"))
    here = {"python": ".".join(platform.python_version_tuple()[:2]), "machine": platform.machine()}
    for what, seen in here.items():
        if manifest[what] != seen:
            sys.stderr.write(
                f"{root}: this bundle is for {what} {manifest[what]}, here is {seen}; "
                "deploy again with `weighbridge agents deploy`\n"
            )
            return 2
    sys.argv[0] = "weighbridge-agent"
    sys.path[:0] = [str(root), str(root / "lib")]
    # By name: this file knows the agent only inside a bundle.
    return int(import_module("dpu_agent.cli").main() or 0)


if __name__ == "__main__":
    sys.exit(main())
