"""``weighbridge plan``: what a limit does to training, what inference needs, and which limit follows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli_options import AsJson
from controller.cli_plan_propose import propose
from controller.cli_plan_simulate import simulate
from controller.errors import OperatorError

app = typer.Typer(no_args_is_help=True, help="Limits in numbers that both parties can recompute.")

TRAINING_HELP = {
    "params": "Parameters of the model.",
    "nodes": "Nodes (pods) that take part; each has a link under the limit.",
    "method": "ddp, fsdp, diloco, streaming-diloco, sparseloco, distro, p2p, gossip, lora, pipeline or rl-refresh.",
    "limit": "Bytes (or bits, with their unit) a second, each direction: 1MB/s, 590Mbit/s.",
    "bits": "Bits of a value that is sent.",
    "sync-steps": "Steps between two synchronisations.",
    "step-time": "Seconds of a step without a limit.",
    "flops-per-s": "Peak FLOP/s of a node, instead of --step-time.",
    "mfu": "Share of the peak that is reached, for example 0.4.",
    "local-batch-tokens": "Tokens that a node computes in a step.",
    "topology": "ring, tree, aggregator, store, p2p or pairs.",
    "duplex": "full: both directions at once; half: one after the other.",
    "compression": "Factor beyond --bits.",
    "density": "Share of the values that is sent, for example 64/4096.",
    "bits-per-value": "Bits of each value sent, its index included.",
    "fragments": "Pieces in which an update leaves.",
    "micro-steps": "Micro-steps of a step, each gathering the weights (fsdp).",
    "adapter-params": "Parameters of the adapters (lora).",
    "lora-rank": "Their rank, instead of --adapter-params.",
    "lora-shapes": "Widths in and out of the adapted matrices of a layer: 4096x1024,4096x4096*2.",
    "layers": "Layers that are adapted (lora).",
    "hidden": "Width between layers (pipeline).",
    "micro-batches": "Micro-batches of a step (pipeline).",
    "micro-batch-tokens": "Tokens of a micro-batch (pipeline).",
    "patch-bytes": "Bytes of one update of the weights (rl-refresh).",
    "period": "Time between two updates (rl-refresh).",
    "depth": "Depth of the token bucket.",
    "latency": "Seconds added to each transfer.",
    "framing-overhead": "Bytes of headers for each byte, for example 66/1448.",
    "tokens": "Tokens of the whole training, for its total time.",
}
INFERENCE_HELP = {
    "tokens-per-s": "Tokens a second and GPU.",
    "gpus": "GPUs of the pod.",
    "bytes-per-token": "2 packed; about 250 as JSON events.",
    "token-overhead": "Bytes of headers for each byte.",
    "images-per-s": "Images a second of the pod.",
    "bytes-per-image": "Their size.",
    "videos-per-s": "Videos a second of the pod.",
    "bytes-per-video": "Their size.",
    "layers": "Layers of the model.",
    "kv-heads": "Heads whose keys and values are kept.",
    "head-dim": "Their width.",
    "kv-rank": "Rank of latent attention (with --rope-dim, instead of heads).",
    "rope-dim": "Width of its positional part.",
    "kv-bytes": "Bytes of a kept value.",
    "prefill-tokens-per-s": "Tokens a second of the pod whose keys and values move.",
    "hidden": "Width between layers.",
    "tensor-parallel": "GPUs over which each layer is split.",
    "expert-parallel": "GPUs over which the experts are spread.",
    "experts-per-token": "Experts that each token is sent to.",
    "moe-layers": "Layers with experts.",
    "params": "Parameters of the model.",
    "weight-bytes": "Bytes of a parameter.",
    "copies": "How often the weights cross the boundary in one load.",
    "load-within": "How long a load may take.",
    "refresh-bytes": "Bytes of one refresh of the weights.",
    "refresh-period": "Time between two refreshes.",
    "gpus-per-node": "GPUs of a node.",
    "gpu-memory": "Memory of a GPU.",
    "limit": "The limit to compare with.",
}


def _with_options(helps: Mapping[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option of text for each entry of ``helps``, handed on as the mapping ``given``."""

    def dress(command: Callable[..., None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            given = {name: values.pop(_variable(name)) for name in helps}
            command({name: text for name, text in given.items() if text is not None}, **values)

        own = [each for name, each in inspect.signature(command, eval_str=True).parameters.items() if name != "given"]
        options = [
            inspect.Parameter(
                _variable(name),
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, typer.Option(f"--{name}", help=text, show_default=False)],
            )
            for name, text in helps.items()
        ]
        every = [*options, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return dress


def _variable(name: str) -> str:
    return name.replace("-", "_")


@app.command()
@_with_options(TRAINING_HELP)
def training(
    given: dict[str, str],
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="NAME=FROM:TO:log", help="Vary a parameter; at most twice."),
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the sweep as CSV.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the sweep.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a limit does to one way of training: bytes, times, slowdown, and the limit that would not slow it.

    Whatever is not given and matters is an error; every default is printed.
    """
    from controller.planner.marks import PlanError  # noqa: PLC0415  help is printed before anything is loaded
    from controller.planner.table import training_lines  # noqa: PLC0415
    from controller.planner.training import plan_training  # noqa: PLC0415

    if (csv_file or plot_file) and not sweep:
        raise OperatorError("--csv and --plot are of a sweep. Add `--sweep limit=100kB/s:100MB/s:log`.")
    try:
        if sweep:
            _sweep(given, sweep, csv_file, plot_file, as_json=as_json)
            return
        plan = plan_training(given)
    except PlanError as error:
        raise OperatorError(f"{error}.") from error
    _print(plan.json(), training_lines(plan), as_json=as_json)


def _print(held: Any, lines: list[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(held, ensure_ascii=False, indent=2))
        return
    for line in lines:
        typer.echo(line)


def _sweep(
    given: dict[str, str], texts: list[str], csv_file: Path | None, plot_file: Path | None, *, as_json: bool
) -> None:
    from controller.planner.sweep import swept_training  # noqa: PLC0415
    from controller.planner.table import csv_text, resting, row, sweep_lines  # noqa: PLC0415
    from controller.planner.training import OUTSIDE  # noqa: PLC0415

    found = swept_training(given, texts)
    drawn = None if plot_file is None else found.drawing()
    names = [each.name for each in found.sweeps]
    if csv_file is not None:
        rows = [(*values, *row(plan)) for values, plan in zip(found.texts, found.plans, strict=True)]
        _write(csv_file, csv_text(names, rows))
    if plot_file is not None and drawn is not None:
        _write(plot_file, drawn)
    held = [
        {"at": dict(zip(names, values, strict=True)), **plan.json()}
        for values, plan in zip(found.texts, found.plans, strict=True)
    ]
    common = [each for each in found.plans[0].assumptions if each.name not in names]
    lines = [*sweep_lines(names, found.rows(), found.plans), *resting(common, OUTSIDE)]
    _print(held, lines, as_json=as_json)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be written ({error.strerror}). Name a file in a writable folder."
        ) from error


@app.command()
@_with_options(INFERENCE_HELP)
def inference(given: dict[str, str], as_json: AsJson = False) -> None:
    """Say what serving needs at a pod's boundary, by cause, and what must stay inside a pod."""
    from controller.planner.inference import OUTSIDE, plan_inference  # noqa: PLC0415
    from controller.planner.marks import PlanError  # noqa: PLC0415
    from controller.planner.table import inference_lines  # noqa: PLC0415

    try:
        plan = plan_inference(given)
    except PlanError as error:
        raise OperatorError(f"{error}.") from error
    _print(plan.json(), inference_lines(plan, OUTSIDE), as_json=as_json)


app.command()(propose)
app.command()(_with_options(TRAINING_HELP)(simulate))
