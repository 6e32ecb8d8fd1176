"""Leases, the verifier's side: what is granted, and how each grant stays leased."""
