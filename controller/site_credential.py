"""Whether the controller's certificate is this site's controller's: what would otherwise fail at the first call."""

from __future__ import annotations

from controller.credentials import Credential, load_credential
from controller.errors import OperatorError
from controller.pki import Role
from controller.site import Site


def load_site_credential(site: Site) -> Credential:
    """Return the controller's credential as the site file names it.

    Raises:
        OperatorError: a file is missing, expired, readable by others or does not belong to the rest; or the
            certificate is another site's, or not a controller's.
    """
    files = site.controller
    credential = load_credential(files.certificate, files.key, files.ca)
    identity = credential.identity
    if identity.site != site.name:
        raise OperatorError(
            f"{files.certificate}: is for site {identity.site!r}, the site file {site.path} is for {site.name!r}. "
            "Name this site's certificates under `controller:`, or correct `site:`."
        )
    if identity.role is not Role.CONTROLLER:
        raise OperatorError(
            f"{files.certificate}: is for an {identity.role.value}, {identity.name}; agents refuse calls from it. "
            "Issue a controller's with `weighbridge pki issue`."
        )
    return credential
