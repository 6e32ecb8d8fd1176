"""Inference as it looks on the wire: prompts to model servers, answers streamed back token by token, over HTTP.

``python -m hil.traffic.inference serve --listen 10.77.0.1:8000 --for 40s``
``python -m hil.traffic.inference ask --target 10.77.0.1:8000 --target 10.77.0.2:8000 --rate 4 --for 30s --seed 1``

The front end asks each target at random times (Poisson, ``--rate`` requests a second and target). A prompt has some
kilobytes; an answer some hundred tokens of 24 to 120 bytes (a server-sent event with its JSON), 50 a second. The
same seed gives the same requests. With the default rate of 2 a node sends about 20 kB/s and receives about 10 kB/s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from dataclasses import dataclass, field

from hil.traffic.outcome import Outcome, address, duration
from protos.units import NS_PER_S

_TOKENS_PER_S = 50
_MEAN_PROMPT, _LONGEST_PROMPT = 4_000, 32_000
_MEAN_TOKENS, _MOST_TOKENS = 120, 600
_LONGEST_ANSWER_S = 2 * _MOST_TOKENS / _TOKENS_PER_S
_MOST_AT_ONCE = 64  # per target; a request that finds it full is not made, as a load balancer would

_ANSWER_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass
class _Count:
    sent: int = 0
    received: int = 0
    requests: int = 0
    failed: int = 0
    skipped: int = 0
    first_token_ns: list[int] = field(default_factory=list)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: _Count) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        body = await reader.readexactly(length)
        count.received += len(head) + length
        wanted = json.loads(body)
        sizes = random.Random(wanted["seed"])
        writer.write(_ANSWER_HEAD)
        count.sent += len(_ANSWER_HEAD)
        for _ in range(wanted["tokens"]):
            event = b'data: {"token": "' + b"x" * sizes.randint(3, 99) + b'"}\n\n'
            writer.write(event)
            count.sent += len(event)
            await writer.drain()
            await asyncio.sleep(1 / _TOKENS_PER_S)
        count.requests += 1
    except (OSError, asyncio.IncompleteReadError, StopIteration, ValueError, KeyError):
        count.failed += 1
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _ask(target: tuple[str, int], prompt: int, tokens: int, seed: int, count: _Count) -> None:
    body = json.dumps({"seed": seed, "tokens": tokens, "prompt": "p" * prompt}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {target[0]}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    began_ns = time.monotonic_ns()
    try:
        reader, writer = await asyncio.open_connection(*target)
    except OSError:
        count.failed += 1
        return
    try:
        writer.write(head + body)
        await writer.drain()
        count.sent += len(head) + len(body)
        first = True
        while data := await reader.read(65536):
            count.received += len(data)
            if first:
                count.first_token_ns.append(time.monotonic_ns() - began_ns)
                first = False
        count.requests += 1
    except OSError:
        count.failed += 1
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def serve(listen: tuple[str, int], for_ns: int) -> Outcome:
    """Take requests for that long and finish the answers under way.

    Raises:
        OSError: the address cannot be used.
    """
    count, start_ns, under_way = _Count(), time.monotonic_ns(), set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_answer(reader, writer, count))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    server = await asyncio.start_server(begin, *listen)
    async with server:
        await asyncio.sleep(for_ns / NS_PER_S)
    if under_way:
        _, unfinished = await asyncio.wait(under_way, timeout=_LONGEST_ANSWER_S)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
    detail = {"requests": count.requests, "failed": count.failed}
    return Outcome(
        "inference", "serve", start_ns, time.monotonic_ns(), count.sent, count.received, None, None, {**detail}
    )


async def ask(targets: list[tuple[str, int]], *, per_second: float, for_ns: int, seed: int) -> Outcome:
    """Ask every target at random times for that long, then wait for the answers under way."""
    count, start_ns = _Count(), time.monotonic_ns()
    await asyncio.gather(
        *(
            _ask_one(target, per_second, start_ns + for_ns, random.Random(f"{seed} {target}"), count)
            for target in targets
        )
    )
    first = sorted(count.first_token_ns)
    detail = {
        "requests": count.requests,
        "failed": count.failed,
        "skipped": count.skipped,
        "median_first_token_ns": first[len(first) // 2] if first else None,
    }
    return Outcome(
        "inference", "ask", start_ns, time.monotonic_ns(), count.sent, count.received, None, None, {**detail}
    )


async def _ask_one(
    target: tuple[str, int], per_second: float, end_ns: int, chance: random.Random, count: _Count
) -> None:
    under_way: set[asyncio.Task[None]] = set()
    due_ns = float(time.monotonic_ns())
    while True:
        due_ns += chance.expovariate(per_second) * NS_PER_S
        prompt = min(_LONGEST_PROMPT, round(chance.expovariate(1 / _MEAN_PROMPT)))
        tokens = min(_MOST_TOKENS, 1 + round(chance.expovariate(1 / _MEAN_TOKENS)))
        if due_ns >= end_ns:
            break
        await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / NS_PER_S))
        if len(under_way) >= _MOST_AT_ONCE:
            count.skipped += 1
            continue
        task = asyncio.create_task(_ask(target, prompt, tokens, chance.getrandbits(32), count))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    if under_way:
        await asyncio.wait(under_way)


def main(arguments: list[str] | None = None) -> int:
    """Run one side; return the exit code, 1 if no request succeeded."""
    parser = argparse.ArgumentParser(prog="hil.traffic.inference", description="Requests and streamed answers.")
    sides = parser.add_subparsers(dest="side", required=True)
    serving, asking = sides.add_parser("serve"), sides.add_parser("ask")
    serving.add_argument("--listen", type=address, required=True)
    asking.add_argument("--target", type=address, action="append", required=True)
    asking.add_argument("--rate", type=float, default=2.0, help="requests a second to each target")
    asking.add_argument("--seed", type=int, default=0)
    for side in (serving, asking):
        side.add_argument("--for", dest="for_ns", type=duration, required=True)
    chosen = parser.parse_args(arguments)
    if chosen.side == "ask" and not 0 < chosen.rate <= 1000:
        parser.error("--rate must be above 0 and at most 1000")
    try:
        if chosen.side == "serve":
            outcome = asyncio.run(serve(chosen.listen, chosen.for_ns))
        else:
            work = ask(chosen.target, per_second=chosen.rate, for_ns=chosen.for_ns, seed=chosen.seed)
            outcome = asyncio.run(work)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 1 if chosen.side == "ask" and not outcome.detail["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
