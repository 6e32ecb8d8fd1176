"""A proposal as two documents: the reasoning, in Markdown for people, and a draft agreement in TOML.

The draft's numbers are the token buckets of the proposal; `weighbridge agreement propose` takes it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from controller.planner.methods import METHODS
from controller.planner.propose import Proposal
from controller.planner.table import resting, seconds, times
from controller.planner.window_set import Bucket
from protos.units import NS_PER_S, format_bytes, format_duration, format_rate

MEASURED_REVERSE_PPM = 2_350
"""Acknowledgements and requests of a recorded load: 653 MB back for 277.6 GB."""
LOAD_MARGIN = Fraction(102, 100)
"""A load window gets two hundredths more than the weights: file system and protocol."""


def agreement_text(proposal: Proposal, *, number: int, valid_from: str, valid_to: str, longest_lease: str) -> str:
    """Return the draft. Times are RFC 3339 with their zone.

    Raises:
        ValueError: the interval is empty; there is nothing to agree on.
    """
    if not proposal.buckets:
        raise ValueError("an empty interval has no agreement")
    lines = [
        "# A draft. Its reasoning is in the document beside it; nothing is in force before both parties signed.",
        "version = 1",
        f'site = "{proposal.site}"',
        f"number = {number}",
        f"valid_from = {valid_from}",
        f"valid_to = {valid_to}",
        f'longest_lease = "{longest_lease}"',
    ]
    for name, bucket in proposal.buckets.items():
        lines += ["", "[[limits]]", 'of = "pod"', 'names = ["*"]', f'class = "{name}"', 'direction = "both"']
        bounds = ", ".join(
            f'{{window = "{each.window_ns // NS_PER_S}s", bytes = "{each.bytes}B"}}' for each in bucket.bounds
        )
        lines += [f'depth = "{bucket.depth_bytes}B"', f"bounds = [{bounds}]"]
    if proposal.loads is not None:
        terms = proposal.loads
        sources = ", ".join(f'"{each}"' for each in terms.sources)
        most = -int(-terms.bytes * LOAD_MARGIN // 1)
        lines += ["", "[loads]", f'classes = ["{terms.traffic_class}"]', f"sources = [{sources}]", f'most = "{most}B"']
        lines += [f'longest = "{terms.longest}"', f"per_day = {terms.per_day}", f'reverse = "{terms.reverse_ppm}ppm"']
        lines += ["both_sign = true"]
    return "\n".join(lines) + "\n"


def reasoning(proposal: Proposal) -> str:
    """Return the reasoning, in Markdown."""
    return "\n".join(_reasoning(proposal)) + "\n"


def _reasoning(proposal: Proposal) -> Iterator[str]:
    ask = proposal.ask
    yield f"# A limit for {proposal.site}"
    yield ""
    yield (
        f"Asked: inference runs with {float(ask.headroom):g} times what it needs, and every way of training listed "
        f"becomes at least {float(ask.slow_by):g} times slower. All rates are of one pod's boundary, each direction."
    )
    yield ""
    yield "## The answer"
    yield ""
    yield from _answer(proposal)
    yield "## What inference needs"
    yield ""
    yield "| pod | class | needs | known by |"
    yield "| --- | --- | --- | --- |"
    for need in proposal.needs:
        known = f"{need.mark.value}: {need.source}"
        yield f"| {need.pod} | {need.traffic_class} | {format_rate(need.bytes_per_s)} | {known} |"
    yield ""
    yield from _adversaries(proposal)
    if proposal.buckets:
        yield from _buckets(proposal)
    yield from _loads(proposal)
    yield "## What this rests on"
    yield ""
    said = resting(proposal.assumptions, proposal.held[0].plan.json()["outside_model"] if proposal.held else ())
    for line in said[1 : said.index("says nothing about:")]:
        yield f"- {line.strip()}"
    yield ""
    yield "## What it says nothing about"
    yield ""
    for text in said[said.index("says nothing about:") + 1 :]:
        yield f"- {text.strip()}"
    yield "- training whose limit is above: low-communication methods are for the shape rules, volume, and content"


def _answer(proposal: Proposal) -> Iterator[str]:
    upper = "no upper end" if proposal.upper_bytes_per_s is None else format_rate(proposal.upper_bytes_per_s)
    if proposal.is_empty:
        yield (
            f"**There is no such limit.** Inference with its headroom needs {format_rate(proposal.lower_bytes_per_s)}, "
            f"and {upper} is the most that slows every adversary as asked."
        )
        yield ""
        for each in proposal.blocking:
            yield f"- **{each.name}**: {proposal.why(each)}."
        yield ""
        yield "Ask for less slowing, declare less traffic (pack tokens), or accept an adversary as not stopped and say"
        yield "by which other layer it is seen (`--accept`)."
    else:
        yield (
            f"Any limit from **{format_rate(proposal.lower_bytes_per_s)}** to **{upper}** does. The draft has the "
            "lower end, the tightest at which inference runs."
        )
    missed = [each.name for each in proposal.held if each.name in proposal.ask.accepted]
    if missed:
        yield ""
        yield f"Accepted as not slowed as asked: {', '.join(missed)}."
    yield ""


def _adversaries(proposal: Proposal) -> Iterator[str]:
    yield "## What it does to each adversary"
    yield ""
    at = format_rate(proposal.lower_bytes_per_s)
    yield f"Under {at}; overlapped is the strongest form, where nothing waits while computing goes on."
    yield ""
    asked = f"{float(proposal.ask.slow_by):g}x slower below"
    yield f"| adversary | method | not slowed from | {asked} | overlapped | blocking | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in proposal.held:
        slower = each.plan.slowdown
        if not each.is_stopped:
            said = "**not stopped**"
        elif slower.overlapped < proposal.ask.slow_by:
            said = "slowed, less than asked"
        else:
            said = "slowed as asked"
        limit = format_rate(each.limit_for(proposal.ask.slow_by))
        yield (
            f"| {each.name} | {METHODS[each.plan.method].title} | {format_rate(each.needs_bytes_per_s)} | {limit} "
            f"| {times(slower.overlapped)} | {times(slower.blocking)} | {said} |"
        )
    yield ""
    free = [each.name for each in proposal.held if not each.is_stopped]
    if free:
        yield f"A limit of a rate does not stop {', '.join(free)}."
        yield ""


def _buckets(proposal: Proposal) -> Iterator[str]:
    yield "## The token bucket, and the windows it keeps"
    yield ""
    for name, bucket in proposal.buckets.items():
        yield f"{name}: {format_rate(bucket.rate_bytes_per_s)} with a depth of {format_bytes(bucket.depth_bytes)}."
        yield ""
        yield from _windows(bucket)
        yield ""
        once = [
            each.name
            for each in proposal.held
            if max(each.plan.moved.up_bytes, each.plan.moved.down_bytes) <= bucket.depth_bytes
        ]
        if once:
            refill = seconds(Fraction(bucket.depth_bytes, bucket.rate_bytes_per_s))
            yield (
                f"The depth is as much as a whole synchronisation of {', '.join(once)}; used up, it is full again "
                f"after {refill} of rest."
            )
            yield ""


def _windows(bucket: Bucket) -> Iterator[str]:
    yield "| in any | at most | is r w + b |"
    yield "| --- | --- | --- |"
    for each in bucket.bounds:
        yield (
            f"| {format_duration(each.window_ns)} | {each.bytes} B | {bucket.rate_bytes_per_s} B/s x "
            f"{each.window_ns // NS_PER_S} s + {bucket.depth_bytes} B |"
        )


def _loads(proposal: Proposal) -> Iterator[str]:
    yield "## Load windows"
    yield ""
    if proposal.loads is None:
        yield "None are declared: a model cannot be loaded through this boundary but at the limit."
        yield ""
        return
    terms = proposal.loads
    size, mean = format_bytes(terms.bytes), proposal.load_bytes_per_s
    at_limit = seconds(terms.bytes / proposal.lower_bytes_per_s)
    yield (
        f"{terms.per_day} a day and node, of {size} in {terms.longest}, from {', '.join(terms.sources)}; at the limit "
        f"one would take {at_limit}. They let {format_rate(mean)} into each node, on average over a day, beside the "
        "limit."
    )
    yield ""
    if terms.reverse_ppm < MEASURED_REVERSE_PPM:
        yield (
            f"{terms.reverse_ppm} ppm back are fewer than a recorded load sent ({MEASURED_REVERSE_PPM} ppm, measured): "
            "an honest load would break it."
        )
        yield ""
    used = [
        each.name
        for each in proposal.held
        if each.plan.method == "rl-refresh" and each.plan.moved.down_bytes / each.plan.compute_s <= mean
    ]
    if used:
        yield (
            f"That is as much as {', '.join(used)} needs: weights sent as loads do not break the limit. What shows "
            "them is their number, and what they contain."
        )
        yield ""
