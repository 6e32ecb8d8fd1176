"""The verifier's appliance: inventory, deployment, collection, journal, cross-check, report, CLI."""
