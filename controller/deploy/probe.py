"""Ask an agent what it is, over the same mutual TLS that collection uses: proof that what was deployed answers."""

from __future__ import annotations

import grpc

from controller.credentials import Credential
from controller.errors import DeviceError
from protos.v1 import agent_pb2, agent_pb2_grpc

DESCRIBE_TIMEOUT_S = 5.0

_OPTIONS = (
    # A connection of its own, made anew: an earlier one may still lead to the agent that was just replaced.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


def describe(address: str, credential: Credential, timeout_s: float = DESCRIBE_TIMEOUT_S) -> agent_pb2.AgentDescription:
    """Return what the agent at ``address`` says of itself.

    Raises:
        DeviceError: no answer in time, or one of the two ends refused the other.
    """
    tls = grpc.ssl_channel_credentials(credential.ca_pem, credential.key_pem, credential.certificate_pem)
    with grpc.secure_channel(address, tls, options=_OPTIONS) as channel:
        try:
            answer: agent_pb2.AgentDescription = agent_pb2_grpc.AgentServiceStub(channel).Describe(  # type: ignore[no-untyped-call]
                agent_pb2.DescribeRequest(), timeout=timeout_s
            )
        except grpc.RpcError as error:
            code, details = error.code().name.lower().replace("_", " "), error.details() or "no details"
            raise DeviceError(
                f"the agent at {address} does not answer ({code}: {details}); check that its "
                "service runs, that the address in the site file is its own, and both certificates with "
                "`weighbridge pki show`"
            ) from error
    return answer
