"""Put the agent on one DPU and prove that what was sent is what answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from controller.credentials import Credential, load_credential
from controller.deploy.bundle import Bundle
from controller.deploy.enrolment import Enrolment, enrol
from controller.deploy.install import Install
from controller.deploy.limits import limits_of
from controller.deploy.look import Looked, Mode, look
from controller.deploy.options import Deployed, Options, Surroundings
from controller.deploy.probe import DESCRIBE_TIMEOUT_S
from controller.deploy.service import Service, service_for
from controller.deploy.settings import Settings, ports_of, settings_for
from controller.deploy.ssh import Connection
from controller.deploy.switchover import InForce, Switchover
from controller.deploy.target import Target, target_for
from controller.errors import DeviceError, EvidenceError, InternalError, OperatorError, WeighbridgeError
from controller.journal import Journal
from controller.pki import Identity, Role, agent_stem, with_ending
from controller.revoked import revoked_list
from controller.site import Dpu, Site
from controller.verifierkey import verifier_key
from protos.signing import fingerprint
from protos.v1 import agent_pb2

# Whether the agent that is there already answers as it should: no restart then.
ALREADY_TIMEOUT_S = 5.0
_POLL_S = 0.3

_STEPS = (
    "check what is to be installed",
    "connect with the pinned host key",
    "look at the device",
    "build the bundle",
    "send the bundle",
    "send the settings",
    "switch over",
    "wait for the agent to answer",
    "enrol the agent",
    "remove old releases",
)


def deploy(
    site: Site,
    name: str,
    journal: Journal,
    now_ns: Callable[[], int],
    *,
    options: Options,
    progress: Callable[[str], None],
    surroundings: Surroundings | None = None,
) -> Deployed:
    """Deploy the agent ``name`` and return what answers afterwards.

    1. Check what is to be installed: the agent's certificate is its own, valid and for its address.
    2. Connect with the pinned host key.
    3. Look at the device: Python, processor, C library, service manager, and who owns the DPU.
    4. Build the bundle for that Python and processor, or take the one that is built.
    5. Send it, compare hashes there, unpack it beside what runs; skipped when it is there undamaged.
    6. Send configuration, certificate, key and authority beside those in force, skipped likewise; the new release
       itself checks them there.
    7. Switch over: both links by a rename each, the service's description; restart if anything changed.
    8. Wait until the agent answers over mutual TLS with its name and the bundle's hash.
    9. Enrol: pin its frame key, or compare it with the one that is pinned.
    10. Remove old releases but the one before.

    Up to step 6 what runs is not touched. Should 7, 8 or 9 fail, links and service are put back as they were.

    Args:
        site: the site.
        name: the agent's.
        journal: takes the enrolment, or the refusal.
        now_ns: the timeline.
        options: how.
        progress: is told each step in words.
        surroundings: doubles, for tests.

    Raises:
        OperatorError: something in the site's files is unfit; the device was not touched.
        DeviceError: the device or the agent did not do what it must.
        EvidenceError: the agent shows another key than the one enrolled.
    """
    return _Deployment(
        site=site,
        dpu=site.agent(name),
        journal=journal,
        now_ns=now_ns,
        options=options,
        progress=progress,
        around=surroundings or Surroundings(),
    ).run()


class _Deployment:
    def __init__(
        self,
        *,
        site: Site,
        dpu: Dpu,
        journal: Journal,
        now_ns: Callable[[], int],
        options: Options,
        progress: Callable[[str], None],
        around: Surroundings,
    ) -> None:
        self._site, self._dpu, self._journal, self._now_ns = site, dpu, journal, now_ns
        self._options, self._progress, self._around = options, progress, around
        self._step_number = 0
        self._touched = False

    def run(self) -> Deployed:
        with self._step():
            own, agents = self._credentials()
        with self._step():
            connection = self._around.connect(self._dpu)
        with contextlib.ExitStack() as leaving:
            leaving.callback(connection.close)
            with self._step():
                looked, target, service = self._look(connection)
                install = Install(connection, self._options.paths)
                switchover = Switchover(install, service)
                found = InForce(looked.current, looked.settings, install.read(service.file))
            with self._step():
                bundle = self._around.build(target, self._options.build_directory)
                size = f"{bundle.unpacked_bytes / 1e6:.0f} MB unpacked"
                self._say(f"bundle {bundle.sha256[:12]}, version {bundle.version}, for {target}, {size}")
            with self._step():
                leaving.callback(self._clean, install)
                install.begin()
                sent = self._send(install, bundle)
            with self._step():
                settings = self._settings(install, looked, agents)
                wanted = InForce(f"releases/{bundle.sha256}", f"settings/{settings.name}", service.content)
                if found != wanted:
                    install.check_settings(settings, bundle)
            with self._put_back_on_failure(switchover, found, wanted, own):
                with self._step():
                    restarted = self._switch(switchover, found, wanted, own)
                with self._step():
                    described = self._wait(switchover, bundle.sha256, own, self._options.start_timeout_s)
                with self._step():
                    enrolled = self._enrol(described)
            with self._step():
                self._prune(install, found, wanted)
        version, name = described.agent_version, described.bundle_sha256
        return Deployed(self._dpu.name, version, name, looked.mode, sent, restarted, enrolled)

    # Telling

    def _say(self, text: str) -> None:
        self._progress(f"{self._dpu.name}: {text}")

    @contextlib.contextmanager
    def _step(self) -> Iterator[None]:
        """Tell the next step, and name it in whatever fails in it."""
        what = _STEPS[self._step_number]
        self._step_number += 1
        place = f"step {self._step_number} of {len(_STEPS)}"
        self._say(f"{place}: {what}")
        try:
            yield
        except WeighbridgeError as error:
            raise _same_kind(error, f"{self._dpu.name}, {place} ({what}): {error}") from error

    # Steps

    def _credentials(self) -> tuple[Credential, Credential]:
        files = self._site.controller
        own = load_credential(files.certificate, files.key, files.ca)
        stem = agent_stem(files.ca.parent, self._dpu.name)
        certificate = with_ending(stem, ".pem")
        agents = load_credential(certificate, with_ending(stem, ".key"), files.ca)
        remedy = f"issue the right one with `weighbridge pki issue {self._dpu.name} --renew`"
        wanted = Identity(own.identity.site, Role.AGENT, self._dpu.name)
        if agents.identity != wanted:
            raise OperatorError(f"{certificate}: is for {agents.identity.uri}, not {wanted.uri}; {remedy}")
        if self._dpu.agent.host not in agents.addresses:
            raise OperatorError(
                f"{certificate}: is for the address {', '.join(agents.addresses) or 'of nobody'}, the site file says "
                f"{self._dpu.agent.host}; {remedy}"
            )
        self._say(f"certificate {agents.identity.uri}, valid until {agents.not_after}")
        return own, agents

    def _look(self, connection: Connection) -> tuple[Looked, Target, Service]:
        paths = self._options.paths
        looked = look(connection, paths, ports_of(self._dpu))
        self._say(f"Python {looked.python} on {looked.machine}, kernel {looked.kernel}; {looked.mode.value}")
        if looked.uid != 0:
            raise DeviceError(
                f"{connection.place}: is logged in as user {looked.uid}, not root; give `user: root` in the site file "
                "and allow it by key only (PermitRootLogin prohibit-password)"
            )
        if looked.settings_is_folder:
            raise DeviceError(
                f"{connection.place}: {paths.root}/etc is a folder that deployment did not make; move it away, "
                "then deploy again"
            )
        for port in looked.absent_ports:
            self._say(f"port {port} is not there now; the agent will report it as absent until it comes")
        if looked.mode not in {Mode.ZERO_TRUST, Mode.NOT_A_BLUEFIELD}:
            self._say(f"WARNING: what this DPU says does not bind its host ({looked.mode.value})")
        target = target_for(looked.python, looked.machine, looked.glibc, connection.place)
        return looked, target, service_for(looked, paths, connection)

    def _send(self, install: Install, bundle: Bundle) -> bool:
        if install.holds_release(bundle.sha256):
            self._say("is there already, undamaged")
            return False
        install.send_release(bundle)
        return True

    def _settings(self, install: Install, looked: Looked, agents: Credential) -> Settings:
        interval_ns = self._site.collection.frame_interval_ns
        settings = settings_for(
            self._dpu,
            agents,
            self._options.paths,
            looked,
            frame_interval_ns=interval_ns,
            verifier_public_key=verifier_key(self._journal.path).public_key().public_bytes_raw(),
            limits=limits_of(self._site, self._dpu, self._journal),
            revoked=revoked_list(self._site.controller.ca.parent),
        )
        if not install.holds_settings(settings):
            install.send_settings(settings)
        return settings

    def _switch(self, switchover: Switchover, found: InForce, wanted: InForce, own: Credential) -> bool:
        """Return whether the service was restarted."""
        if found == wanted:
            try:
                self._wait(switchover, wanted.release, own, ALREADY_TIMEOUT_S)
            except DeviceError:
                self._say("nothing changed, but it does not answer; restarting it")
            else:
                self._say("nothing changed and it answers; it is not restarted")
                return False
        self._touched = True
        switchover.put(wanted, found)
        return True

    def _wait(
        self, switchover: Switchover, sha256: str | None, own: Credential, timeout_s: float
    ) -> agent_pb2.AgentDescription:
        deadline = self._around.monotonic_s() + timeout_s
        while True:
            left = deadline - self._around.monotonic_s()
            try:
                answer = self._around.describe(str(self._dpu.agent), own, max(0.5, min(left, DESCRIBE_TIMEOUT_S)))
            except DeviceError as error:
                seen = str(error)
            else:
                if answer.agent == self._dpu.name and answer.bundle_sha256 == sha256:
                    return answer
                seen = (
                    f"agent {answer.agent!r} with the bundle {answer.bundle_sha256[:12] or 'none'} answers at "
                    f"{self._dpu.agent}, expected is {self._dpu.name!r} with {(sha256 or 'none')[:12]}"
                )
            if self._around.monotonic_s() >= deadline:
                words = switchover.last_words()
                raise DeviceError(f"{seen}. Waited {timeout_s:g} s. The end of its log: {words}")
            self._around.sleep(_POLL_S)

    def _enrol(self, described: agent_pb2.AgentDescription) -> bool:
        shown = Enrolment(self._dpu.name, described.frame_public_key, described.bundle_sha256, described.agent_version)
        changed = enrol(self._journal, self._now_ns, shown, replace_key=self._options.replace_key)
        key = fingerprint(described.frame_public_key)[:16]
        self._say(f"version {described.agent_version}, frame key {key} {'enrolled' if changed else 'as enrolled'}")
        return changed

    def _prune(self, install: Install, found: InForce, wanted: InForce) -> None:
        removed = install.prune(
            releases={wanted.release, found.release}, settings={wanted.settings_name, found.settings_name}
        )
        if removed:
            self._say(f"removed {removed} old release{'s' if removed > 1 else ''}")

    # Failing

    def _clean(self, install: Install) -> None:
        try:
            install.end()
        except DeviceError as error:
            # A later deployment removes it; what went wrong before this is what the operator must read.
            self._say(f"what was sent could not be removed now: {error}")

    @contextlib.contextmanager
    def _put_back_on_failure(
        self, switchover: Switchover, found: InForce, wanted: InForce, own: Credential
    ) -> Iterator[None]:
        try:
            yield
        except WeighbridgeError as error:
            raise _same_kind(error, f"{error}. {self._put_back(switchover, found, wanted, own)}") from error
        except BaseException:
            self._say(self._put_back(switchover, found, wanted, own))
            raise

    def _put_back(self, switchover: Switchover, found: InForce, wanted: InForce, own: Credential) -> str:
        """Bring what was found into force again; return what came of it, as a sentence; never raises a DeviceError."""
        if not self._touched:
            return "Nothing was changed"
        try:
            switchover.put(found, wanted)
        except DeviceError as error:
            return f"It could not be put back either ({error}); the device may run the old release or the new one"
        if found.release is None or found.service is None:
            return "There was no agent before, so its service was removed again"
        try:
            self._wait(switchover, found.release, own, self._options.start_timeout_s)
        except DeviceError as error:
            return f"Release {found.release[:12]} was put back, but does not answer: {error}"
        return f"Release {found.release[:12]} was put back and answers"


def _same_kind(error: WeighbridgeError, text: str) -> WeighbridgeError:
    """Return an error of the same fault and exit code with another text."""
    for kind in (OperatorError, DeviceError, EvidenceError):
        if isinstance(error, kind):
            return kind(text)
    return InternalError(text)
