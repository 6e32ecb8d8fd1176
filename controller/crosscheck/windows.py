"""Bytes in every sliding window of one length: what some window certainly held, and what any can have held.

A limit (w, B) is about all windows ``(t, t + w]``, not those that happen to lie between two readings. Windows are
clipped to the period, so a period shorter than w is one window. Source: bounds.md 5, 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.crosscheck.exact import Ints, Line, add, scale, subtract, within
from controller.crosscheck.quantity import Edge, Quantity, least_between, most_between


@dataclass(frozen=True, slots=True)
class Excess:
    """Proof that a limit was exceeded: ``(from_ns, to_ns]`` held more than ``windows`` windows may hold.

    ``bytes`` is by how much, beyond what keeping the limit in every window would have left possible;
    ``in_one_window`` is what the fullest of those windows held at least.
    """

    bytes: int
    in_one_window: int
    from_ns: int
    to_ns: int
    windows: int


@dataclass(frozen=True, slots=True)
class Fullest:
    """The most in any window. ``most`` is None where nothing bounds it."""

    least: int
    least_from_ns: int
    most: int | None
    most_from_ns: int


def fullest(quantity: Quantity, window: int, from_ns: int, to_ns: int) -> Fullest:
    """Return bounds of the fullest window of ``window`` nanoseconds within ``(from_ns, to_ns]``.

    1. The least of a window can be largest only where its end's part rises or its start's part falls, and, with a
       line rate, where either is about to turn against it.
    2. The same for the most; there a line rate also bends edges between readings (bounds.md 6). A whole nanosecond
       beside a jump is exact.
    3. Where the most becomes unknown it is unbounded.
    """
    least_at = [quantity.peaks(Edge.LEAST_END) - window, quantity.bends(Edge.LEAST_START)]
    most_at = [quantity.bends(Edge.MOST_END) + 1 - window, quantity.peaks(Edge.MOST_END) - window]
    marks = quantity.landmarks()
    most_at += [quantity.peaks(Edge.MOST_START) + 1, marks, marks - window]
    if quantity.sloped:
        least_at += [quantity.peaks(Edge.LEAST_START), quantity.bends(Edge.LEAST_END) - window]
        most_at += [quantity.bends(Edge.MOST_START) - 1, quantity.peaks(Edge.MOST_END) - 1 - window]
        most_at += [quantity.kinks(Edge.MOST_START), quantity.kinks(Edge.MOST_END) - window]
    last_start = max(from_ns, to_ns - window)
    least, least_from = 0, from_ns
    for starts in _inside(least_at, from_ns, last_start):
        leasts = least_between(quantity, starts, np.minimum(starts + window, to_ns))
        best = int(np.argmax(leasts))
        if int(leasts[best]) > least:
            least, least_from = int(leasts[best]), int(starts[best])
    most, most_from = 0, from_ns
    for starts in _inside(most_at, from_ns, last_start):
        mosts, bounded = most_between(quantity, starts, np.minimum(starts + window, to_ns))
        if not bounded.all():
            return Fullest(least, least_from, None, int(starts[int(np.argmin(bounded))]))
        best = int(np.argmax(mosts))
        if int(mosts[best]) > most:
            most, most_from = int(mosts[best]), int(starts[best])
    line = quantity.line
    if line is not None:
        # Positions are rounded to a byte: between two candidates the sum can be one more, never above the line's.
        carried = line.most_in(min(window, to_ns - from_ns))
        most = min(most + (line.rate.ns != 1), carried)
    return Fullest(least, least_from, most, most_from)


def _inside(parts: list[Ints], first: int, last: int) -> Iterator[Ints]:
    """Yield the times of each part within two, and the two."""
    yield np.array([first, last], dtype=np.int64)
    for part in parts:
        kept = part[(part > first) & (part < last)]
        if len(kept):
            yield kept


def certain_excess(quantity: Quantity, window: int, limit: int, from_ns: int, to_ns: int) -> Excess | None:
    """Return a proof that some window held more than ``limit``, None exactly if there is none.

    1. Every pair of a start ``(s, H)``, the count certainly not above H at s, and an end ``(t, L)``, the count
       certainly not below L at t, proves ``L - H`` bytes in ``t - s``.
    2. If every window kept the limit, that is at most ``G(t - s)``, ``G(x) = min over k >= 0 of k*B + g(x - k*w)``.
    3. A pair with ``L - H > G`` is a proof, and the only kind there is (bounds.md 5): a burst shows in one window, a
       steady rate just above the limit only over many. The excess given is within one limit of the largest.
    """
    end_times = within(quantity.peaks(Edge.LEAST_END), from_ns, to_ns)
    start_times = within(quantity.peaks(Edge.LEAST_START), from_ns, to_ns)
    ends, starts = quantity.edge(end_times, Edge.LEAST_END), quantity.edge(start_times, Edge.LEAST_START)
    best: Excess | None = None
    for part in range(int(ends.segment[0]), int(ends.segment[-1]) + 1):
        end_here, start_here = ends.known & (ends.segment == part), starts.known & (starts.segment == part)
        found = _best_pair(
            _Points(start_times[start_here], starts.values[start_here]),
            _Points(end_times[end_here], ends.values[end_here]),
            window,
            limit,
            quantity.line,
        )
        if found is not None and (best is None or found.bytes > best.bytes):
            best = found
    return best


@dataclass(frozen=True, slots=True)
class _Points:
    """Times in order, each with a value."""

    times: Ints
    values: Ints

    def __len__(self) -> int:
        return len(self.times)


def _best_pair(starts: _Points, ends: _Points, window: int, limit: int, line: Line | None) -> Excess | None:
    """Return a pair of a start and a later end with an excess over ``G``, None exactly if there is none.

    With ``s = b*w + beta`` and ``t = a*w + alpha`` the whole windows are ``a - b`` and one more is begun if
    ``alpha > beta``. So the excess is ``(L - a*B) - (H - b*B)`` less the price of the begun window:

    1. price B: any earlier start. Settles a lasting excess in O(n).
    2. one window alone: the best start within w before an end. Settles a burst in O(n).
    3. price 0, if ``alpha <= beta``; price ``g(alpha - beta)``, if a line rate makes that less than B: what is neither
       lasting nor a burst takes the divide and conquer of :func:`_refined`.
    """
    if len(starts) == 0 or len(ends) == 0:
        return None
    if line is not None and line.rate.in_ns(window) < limit:
        # The line itself (but for its step) keeps the limit; then G as if there were no line is no larger proof.
        line = None
    origin = int(starts.times[0])
    start_turn, start_rest = np.divmod(starts.times - origin, window)
    end_turn, end_rest = np.divmod(ends.times - origin, window)
    paid_start = subtract(starts.values, scale(start_turn, limit))
    paid_end = subtract(ends.values, scale(end_turn, limit))
    before = np.searchsorted(starts.times, ends.times, side="left")
    if not (before > 0).any():
        return None
    whole = _running(paid_start, paid_end, before, limit)
    burst = _burst(starts, ends, window, limit)
    excess, start, end = max(whole, burst)
    if excess > 0:
        return _proof(starts, ends, (excess, start, end), window, limit)
    can_start, can_end = _above_the_line(
        _Paid(starts.times, start_rest, paid_start), _Paid(ends.times, end_rest, paid_end), window, limit
    )
    if len(can_start) == 0 or len(can_end) == 0:
        return None
    excess, start, end = _refined(
        _Paid(starts.times[can_start], start_rest[can_start], paid_start[can_start]),
        _Paid(ends.times[can_end], end_rest[can_end], paid_end[can_end]),
        window,
        limit,
        line,
    )
    if excess <= 0:
        return None
    return _proof(starts, ends, (excess, int(can_start[start]), int(can_end[end])), window, limit)


def _burst(starts: _Points, ends: _Points, window: int, limit: int) -> tuple[int, int, int]:
    """Return the best pair no further apart than one window; excess 0 if there is none."""
    first = np.searchsorted(starts.times, ends.times - window, side="left")
    met = first < np.searchsorted(starts.times, ends.times, side="left")
    if not met.any():
        return 0, 0, 0
    # A later start that is lower than those within the window is a contradiction elsewhere, and no larger proof here.
    lowest = np.minimum.accumulate(starts.values[::-1])[::-1]
    gaps = subtract(ends.values[met], lowest[first[met]])
    best = int(np.argmax(gaps))
    end = int(np.flatnonzero(met)[best])
    start = int(first[end]) + int(np.argmin(starts.values[first[end] :]))
    if starts.times[start] >= ends.times[end]:
        return 0, 0, 0
    return int(gaps[best]) - limit, start, end


def _proof(starts: _Points, ends: _Points, found: tuple[int, int, int], window: int, limit: int) -> Excess:
    excess, start, end = found
    length = int(ends.times[end] - starts.times[start])
    held = int(ends.values[end]) - int(starts.values[start])
    windows = -(-length // window)
    # The pair proves that some window held more than the limit, whatever an even share would be.
    in_one = max(limit + 1, -(-held // windows))
    return Excess(excess, in_one, int(starts.times[start]), int(ends.times[end]), windows)


@dataclass(frozen=True, slots=True)
class _Paid:
    """Points with their time within the window's raster and their value less the limit of each whole window."""

    times: Ints
    rests: Ints
    values: Ints


def _above_the_line(starts: _Paid, ends: _Paid, window: int, limit: int) -> tuple[Ints, Ints]:
    """Return the starts and ends that any pair with an excess must be among.

    A begun window costs at least its share of the limit: ``G(x) >= B*x/w``. So both ends of a proof lie on a stretch
    that is above the line ``B/w``, which two running extremes show. The share is counted in 2^32nds of a window, and
    what that loses is allowed for.
    """
    lost = (limit >> 32) + 4
    start_over = subtract(starts.values, _share_of(limit, starts.rests, window))
    end_over = subtract(ends.values, _share_of(limit, ends.rests, window))
    before = np.searchsorted(starts.times, ends.times, side="left")
    after = np.searchsorted(ends.times, starts.times, side="right")
    lowest = np.minimum.accumulate(start_over)
    highest = np.maximum.accumulate(end_over[::-1])[::-1]
    can_end, can_start = np.flatnonzero(before > 0), np.flatnonzero(after < len(ends.times))
    gains = subtract(end_over[can_end], lowest[before[can_end] - 1])
    can_end = can_end[gains >= -lost]
    gains = subtract(highest[after[can_start]], start_over[can_start])
    return can_start[gains >= -lost], can_end


def _share_of(limit: int, rests: Ints, window: int) -> Ints:
    """Return ``limit * rest / window``, at most ``limit / 2^32 + 3`` too little."""
    steps = 1 << 16
    coarse, left = np.divmod(scale(rests, steps), window)
    fine = scale(left, steps) // window
    return add(scale(coarse, limit) // steps, scale(fine, limit) // steps**2)


def _refined(starts: _Paid, ends: _Paid, window: int, limit: int, line: Line | None) -> tuple[int, int, int]:
    """Return the largest excess over all pairs of a start and a later end, and the pair.

    1. Price B, and for a line also "one whole window less and the line for the rest": earlier starts, whatever
       their rest, so a running minimum.
    2. The other prices depend on which rest is larger: a start counts for an end if it is earlier in time *and*
       on the right side in rest. Time is divided and conquered: on each of log2(n) levels, starts in the left half
       of a block meet ends in its right half, all blocks at once, sorted by rest with a running minimum.
    """
    before = np.searchsorted(starts.times, ends.times, side="left")
    candidates = [_running(starts.values, ends.values, before, limit)]
    if line is not None:
        rate, step = line.rate, line.step
        risen = add(rate.position(ends.rests), step)
        spared = subtract(starts.values, rate.position(starts.rests - window))
        candidates.append(_running(spared, subtract(ends.values, risen), before, -limit))
    order = np.concatenate([starts.times, ends.times])
    is_end = np.concatenate([np.zeros(len(starts.times), dtype=np.int8), np.ones(len(ends.times), dtype=np.int8)])
    # At one time an end comes first: a start there is not before it.
    place = np.empty(len(order), dtype=np.int64)
    place[np.lexsort((1 - is_end, order))] = np.arange(len(order))
    start_place, end_place = place[: len(starts.times)], place[len(starts.times) :]
    rests = np.unique(np.concatenate([starts.rests, ends.rests]))
    start_rank, end_rank = np.searchsorted(rests, starts.rests), np.searchsorted(rests, ends.rests)
    candidates.append(
        _dominance(_Placed(start_place, start_rank, starts.values), _Placed(end_place, end_rank, ends.values))
    )
    if line is not None:
        # alpha > beta is the mirror image of alpha <= beta: count ranks from the other end, half a step apart.
        mirrored = len(rests) - 1
        begun = subtract(starts.values, rate.position(starts.rests))
        candidates.append(
            _dominance(
                _Placed(start_place, 2 * (mirrored - start_rank), begun),
                _Placed(end_place, 2 * (mirrored - end_rank) + 1, subtract(ends.values, risen)),
            )
        )
    return max(candidates)


def _running(start_values: Ints, end_values: Ints, before: Ints, price: int) -> tuple[int, int, int]:
    """Return the best pair of an end with any earlier start, at one price."""
    lowest = np.minimum.accumulate(start_values)
    met = np.flatnonzero(before > 0)
    gaps = subtract(end_values[met], lowest[before[met] - 1])
    best = int(np.argmax(gaps))
    end = int(met[best])
    start = int(np.argmin(start_values[: before[end]]))
    return int(gaps[best]) - price, start, end


@dataclass(frozen=True, slots=True)
class _Placed:
    """Points with their place in the order of time and the rank of their rest."""

    place: Ints
    rank: Ints
    values: Ints


def _dominance(starts: _Placed, ends: _Placed) -> tuple[int, int, int]:
    """Return the best pair of a start before an end in place and not before it in rank; excess 0 if none is above.

    Places are distinct. Values are ranked, so that a block number can be put in front of them in 64 bits: then one
    running minimum over all blocks never takes a value from another block.
    """
    by_value = np.argsort(starts.values, kind="stable")
    value_rank = np.empty(len(by_value), dtype=np.int64)
    value_rank[by_value] = np.arange(len(by_value))
    width = int(max(starts.rank.max(initial=0), ends.rank.max(initial=0))) + 1
    best = (0, 0, 0)
    half = 1
    while half <= int(ends.place.max()):
        left, right = (starts.place // half) % 2 == 0, (ends.place // half) % 2 == 1
        if left.any() and right.any():
            block, here = starts.place[left] // (2 * half), np.flatnonzero(left)
            keys = block * width + starts.rank[left]
            order = np.argsort(keys, kind="stable")
            keys, marked = keys[order], (block * len(by_value) + value_rank[here])[order]
            least = np.minimum.accumulate(marked[::-1])[::-1]
            wanted = ends.place[right] // (2 * half)
            index = np.searchsorted(keys, wanted * width + ends.rank[right], side="left")
            inside = index < len(keys)
            chosen = least[np.minimum(index, len(keys) - 1)]
            inside &= chosen // len(by_value) == wanted
            if inside.any():
                start = by_value[chosen[inside] % len(by_value)]
                end = np.flatnonzero(right)[inside]
                gaps = subtract(ends.values[end], starts.values[start])
                top = int(np.argmax(gaps))
                best = max(best, (int(gaps[top]), int(start[top]), int(end[top])))
        half *= 2
    return best
