"""Every counter in one framing: layer 2 without the check sequence (FCS).

Counters differ in what they count of a frame (bounds.md 10): the FCS is 4 bytes a frame, preamble and gap 20 more;
short frames are padded on the wire to 60 bytes without FCS; a segmenting sender counts one super-packet where the
wire carries several frames, each with its own headers. All of it follows from packet counts, which are bounded like
bytes; nothing is converted by a percentage.
"""

from __future__ import annotations

from fractions import Fraction

from controller.crosscheck.quantity import Combination, Quantity, Stretched
from protos.reading import Framing

HEADER = 14
"""Bytes of an Ethernet header: no frame is shorter, padded or not."""
SHORTEST_PADDED = 60
"""Shortest frame on a wire, without FCS (IEEE 802.3, clause 3.2.7)."""
PADDING = SHORTEST_PADDED - HEADER
"""Most padding a frame can have."""
SMALLEST_SEGMENT = 536
"""What an honest sender cuts a stream into at the least: TCP's own default segment (RFC 9293, section 3.7.1)."""


def without_fcs(counted: Quantity, packets: Quantity | None, framing: Framing) -> Quantity:
    """Return bytes as layer 2 without FCS counts them.

    Args:
        counted: bytes in ``framing``.
        packets: frames counted at the same place; None where the source has no packet counter: then the shares
            that the shortest frame and an endless one would give bound it.
        framing: what ``counted`` counts.
    """
    over = framing.bytes_per_frame_over_l2
    if over == 0:
        return counted
    if packets is None:
        return Stretched(counted, Fraction(SHORTEST_PADDED, SHORTEST_PADDED + over), Fraction(1))
    return Combination([(1, counted), (-over, packets)], counted.line)


def padded_at_most(counted: Quantity, packets: Quantity, largest_frame: int) -> Quantity:
    """Return a quantity whose most includes all padding that an unpadded counter can have left out.

    ``P`` frames of ``B`` bytes, none above ``M``: at most ``(M*P - B)/(M - 14)`` of them can be shorter than a
    header's worth, so the padding is at most ``46*(M*P - B)/(M - 14)``. Its least means nothing.
    """
    share = Fraction(PADDING, largest_frame - HEADER)
    return Combination([(1 - share, counted), (share * largest_frame, packets)])


def padding(count: int, packets: int, largest_frame: int) -> tuple[int, int]:
    """Return least and most bytes of padding of ``packets`` frames that an unpadded counter saw as ``count`` bytes.

    Source: bounds.md 10.
    """
    most = min(PADDING * packets, PADDING * (largest_frame * packets - count) // (largest_frame - HEADER))
    return max(0, SHORTEST_PADDED * packets - count), most


def on_the_wire(
    count: int, super_packets: tuple[int, int], wire_packets: tuple[int, int], header_bytes: tuple[int, int]
) -> tuple[int, int]:
    """Return least and most bytes on the wire of what a segmenting sender counted as ``count`` bytes.

    Each further frame of a super-packet repeats its headers: ``B + (P_wire - P_super) * [h_min, h_max]``.

    Args:
        count: bytes the sender counted.
        super_packets: packets the sender counted, least and most.
        wire_packets: frames the wire carried, least and most.
        header_bytes: length of the repeated headers, least and most.
    """
    fewest = max(0, wire_packets[0] - super_packets[1])
    most = max(0, wire_packets[1] - super_packets[0])
    return count + fewest * header_bytes[0], count + most * header_bytes[1]


def segmented_at_most(
    counted: Quantity, packets: Quantity | None, wire_packets: Quantity, most_header: int
) -> Quantity:
    """Return a quantity whose most includes the headers that segmentation repeats. Its least means nothing.

    Without the sender's own packets every frame on the wire may be one that it did not count.
    """
    terms: list[tuple[int, Quantity]] = [(1, counted), (most_header, wire_packets)]
    return Combination(terms if packets is None else [*terms, (-most_header, packets)])


def short_at_most(counted: Quantity, packets: Quantity) -> Quantity:
    """Return a quantity whose most includes the padding of one short frame a packet: the last that it was cut into.

    For counters of super-packets, which are longer than any frame; :func:`padded_at_most` is for frames.
    """
    return Combination([(1, counted), (PADDING, packets)])


def padded_as_seen(counted: Quantity, seen: Quantity, seen_packets: Quantity, largest_frame: int) -> Quantity:
    """Return a quantity whose most includes all padding of the frames that another counter saw in full.

    :func:`padded_at_most` by the other's ``B`` and ``P``. Its least means nothing.
    """
    share = Fraction(PADDING, largest_frame - HEADER)
    return Combination([(1, counted), (-share, seen), (share * largest_frame, seen_packets)])


def cut_at_most(counted: Quantity, packets: Quantity | None, most_header: int) -> Quantity:
    """Return a quantity whose most is what a segmenting sender can have put on the wire, by its own count alone.

    Each :data:`SMALLEST_SEGMENT` bytes repeat the headers; each packet may end in a short frame, where ``packets`` are
    given. Its least means nothing.
    """
    cut = Combination([(1 + Fraction(most_header, SMALLEST_SEGMENT), counted)])
    return cut if packets is None else short_at_most(cut, packets)
