"""Regenerates ``protos/v1/*_pb2*`` from the ``.proto`` files, or checks that they are up to date.

``python -m protos.generate`` writes them; ``--check`` writes nothing and exits 1 on any difference.
The generator is pinned (pyproject.toml, ``grpcio-tools``), so that the same input gives the same bytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
# The only file with a service; the generator would write an empty stub for the others.
_SERVICES = frozenset({"agent.proto"})


def _generate(into: Path) -> dict[str, bytes]:
    """Run the protobuf compiler and return its files by path relative to the project."""
    sources = sorted((_ROOT / "protos/v1").glob("*.proto"))
    common = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(_ROOT), f"--python_out={into}"]
    for source in sources:
        grpc = [f"--grpc_python_out={into}"] if source.name in _SERVICES else []
        subprocess.run([*common, f"--pyi_out={into}", *grpc, str(source)], check=True)
    return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*_pb2*.py*")}


def main() -> int:
    """Write or check; return the exit code."""
    check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory() as folder:
        wanted = _generate(Path(folder))
    present = {str(path.relative_to(_ROOT)): path.read_bytes() for path in (_ROOT / "protos/v1").glob("*_pb2*.py*")}
    stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if check:
        for name in stale:
            sys.stderr.write(f"{name} differs from what its .proto gives; run 'make protos' and commit\n")
        return 1 if stale else 0
    for name in stale:
        if name in wanted:
            (_ROOT / name).write_bytes(wanted[name])
        else:
            (_ROOT / name).unlink()
        sys.stderr.write(f"wrote {name}\n" if name in wanted else f"removed {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
