"""From the journal to what the cross-check takes: each observer's readings around a period, and who was not looking.

:func:`evidence` is the whole; :func:`links` yields one link after the other for who must keep memory small;
:func:`end_of_evidence_ns` says where a period that ends "now" ends; :func:`inventories` says which site file was in
force when. Nothing here decides: it puts what was journaled on the controller's timeline, numbers counter epochs by
the evidence for them, and names gaps.
"""

from controller.observations.end import end_of_evidence_ns
from controller.observations.gather import evidence, links
from controller.observations.inventory import Inventory, inventories

__all__ = ["Inventory", "end_of_evidence_ns", "evidence", "inventories", "links"]
