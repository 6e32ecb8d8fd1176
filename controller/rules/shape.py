"""What the detectors take for granted about honest traffic, and how many false alarms they may raise.

A threshold is never given here: it follows from :attr:`Shape.false_alarms_per_node_year`, the null hypothesis and the
number of trials. What is given are statements about honest traffic that a reader can contradict, and what is too small
to matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.rules.finding import SHAPES, Severity
from protos.units import NS_PER_S

YEAR_NS = 31_557_600 * NS_PER_S
HOUR_NS = 3_600 * NS_PER_S
DAY_NS = 24 * HOUR_NS


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers of the shape detectors.

    Attributes:
        false_alarms_per_node_year: of all shape detectors together, on a node whose traffic keeps the statements below.
        note_chance: findings less likely by chance than this are shown as notes, alarms or not.
        least_burst_bytes: smaller bursts are not looked at; the smallest update known to matter is some megabytes.
        least_rate_bytes_per_s: slower continuous flows are not looked at.
        least_load_bytes: smaller one-way transfers are not taken for a load of weights.
        longest_period_ns: slower repetitions are daily business (backups) and not looked at.
        honest_volume_variation: honest bursts that come in regular intervals vary at least so much in volume
            (coefficient of variation).
        honest_ratio_span: what an honest flow sends to what it receives lies anywhere between 1 : span and span : 1,
            each as likely (logarithmically).
        symmetric_within: ``|sent - received| / (sent + received)`` up to which a stretch counts as symmetric.
        one_way_below: what came back over what went, below which a burst is one-way.
        acknowledged_below: a burst with less than this share of what came the other way may be no more than its
            acknowledgements: 66 bytes for a frame of 1,514. TCP acknowledges every other one, or fewer.
        honest_day_variation: Rayleigh scale of the coefficient of variation of an honest flow's ten-minute means
            within a day: demand has hours.
        honest_loads_per_day: loads of weights an honest node needs, on average.
        rasters: on so many rasters is the same looked for.
    """

    false_alarms_per_node_year: float = 1.0
    note_chance: float = 5e-3
    least_burst_bytes: int = 1_000_000
    least_rate_bytes_per_s: int = 100_000
    least_load_bytes: int = 50_000_000
    longest_period_ns: int = 6 * HOUR_NS
    honest_volume_variation: float = 0.1
    honest_ratio_span: float = 20.0
    symmetric_within: float = 0.03
    one_way_below: float = 0.1
    acknowledged_below: float = 0.044
    honest_day_variation: float = 0.2
    honest_loads_per_day: float = 4.0
    rasters: int = 1

    def allowed_chance(self, spacing_ns: float) -> float:
        """Return the chance that one test may have, when tests come ``spacing_ns`` apart.

        The budget is shared equally by the kinds; tests of one kind a year times this chance is its share.
        """
        return self.false_alarms_per_node_year / len(SHAPES) * spacing_ns / YEAR_NS

    def severity(self, chance: float, spacing_ns: float) -> Severity | None:
        """Return how loud a finding of this chance is; None if it is nothing to speak of."""
        if chance <= self.allowed_chance(spacing_ns):
            return Severity.PAGE
        return Severity.NOTE if chance <= self.note_chance else None


DEFAULT_SHAPE = Shape()
