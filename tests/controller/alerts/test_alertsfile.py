"""The alerts file: strict, secrets in files of their own, every wrong one refused with line and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.alerts.alertsfile import Receiver, load_alerts
from controller.errors import OperatorError
from controller.rules.finding import Severity
from protos.units import NS_PER_S

SECRET = "correct-horse"


def _load(tmp_path: Path, text: str) -> tuple[Receiver, ...]:
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    token.chmod(0o600)
    (tmp_path / "open").write_text("x\n")
    (tmp_path / "open").chmod(0o644)
    path = tmp_path / "alerts.yaml"
    path.write_text(text)
    return load_alerts(path)


def test_every_kind(tmp_path: Path) -> None:
    manager, hook, out = _load(
        tmp_path,
        "version: 1\nreceivers:\n"
        "- {name: am, kind: alertmanager, url: 'http://192.0.2.7:9093', repeat: 30s}\n"
        "- {name: hook, kind: webhook, url: 'https://hook.example.net/x', bearer_token_file: token, least: page}\n"
        "- {name: out, kind: stdout, group_wait: 5s}\n",
    )
    assert (manager.rhythm.repeat_ns, manager.rhythm.grouped) == (30 * NS_PER_S, False)
    assert (hook.secret, hook.least, hook.rhythm.interval_ns) == (("", SECRET), Severity.PAGE, 30 * NS_PER_S)
    assert (out.rhythm.wait_ns, out.rhythm.grouped) == (5 * NS_PER_S, True)
    assert SECRET not in repr(hook)


START = "version: 1\nreceivers:\n- "
WEB = "name: a, kind: webhook"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("version: 1", 1, "a list of receivers"),
        ("version: 1\nreceivers: []", 2, "a list of receivers"),
        ("version: 9\nreceivers: [{name: a, kind: stdout}]", 1, "knows 1"),
        (START + "{kind: stdout}", 3, "no `name`"),
        (START + "{name: a}", 3, "no `kind`"),
        (START + "{name: a, kind: pager}", 3, "no kind of receiver"),
        (START + "{name: a, kind: stdout, url: 'http://x'}", 3, "unknown key `url`"),
        (START + "{name: a, kind: alertmanager, group_wait: 1s, url: 'http://x'}", 3, "unknown key `group_wait`"),
        (START + f"{{{WEB}}}", 3, "no `url`"),
        (START + f"{{{WEB}, url: 'ftp://x'}}", 3, "no address of a server"),
        (START + f"{{{WEB}, url: 'http://x:99999'}}", 3, "no address of a server"),
        (START + f"{{{WEB}, url: 'http://me:pw@x'}}", 3, "`user` and `password_file`"),
        (START + f"{{{WEB}, url: 'http://x', least: note}}", 3, "no severity"),
        (START + f"{{{WEB}, url: 'http://x', repeat: 60}}", 3, "has no unit"),
        (START + f"{{{WEB}, url: 'http://x', repeat: 8d}}", 3, "longer than a week"),
        (START + f"{{{WEB}, url: 'http://x', insecure: maybe}}", 3, "neither true nor false"),
        (START + f"{{{WEB}, url: 'http://x', bearer_token_file: token}}", 3, "in clear"),
        (START + f"{{{WEB}, url: 'https://x', bearer_token_file: absent}}", 3, "is missing"),
        (START + f"{{{WEB}, url: 'https://x', bearer_token_file: open}}", 3, "by others than its owner"),
        (START + f"{{{WEB}, url: 'https://x', user: me}}", 3, "go together"),
        (
            START + f"{{{WEB}, url: 'https://x', user: u, password_file: token, bearer_token_file: token}}",
            3,
            "two ways",
        ),
        (START + f"{{{WEB}, url: 'https://x', ca_file: token}}", 3, "no certificates"),
        (START + "{name: a, kind: stdout}\n- {name: a, kind: stdout}", 4, "two receivers"),
    ],
)
def test_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(OperatorError) as caught:
        _load(tmp_path, text)
    messages = str(caught.value).splitlines()
    assert any(each.startswith(f"{tmp_path / 'alerts.yaml'}:{line}: ") and words in each for each in messages), messages
    assert SECRET not in str(caught.value)


def test_a_secret_in_clear_if_somebody_says_so(tmp_path: Path) -> None:
    (one,) = _load(tmp_path, START + f"{{{WEB}, url: 'http://x', bearer_token_file: token, insecure: true}}")
    assert one.secret == ("", SECRET)
    (local,) = _load(tmp_path, START + f"{{{WEB}, url: 'http://127.0.0.1:1', user: u, password_file: token}}")
    assert local.secret == ("u", SECRET)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read"):
        load_alerts(tmp_path / "absent.yaml")


def test_the_how_tos_example(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "be-alerted.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert [receiver.kind for receiver in _load(tmp_path, example)] == ["alertmanager", "webhook", "stdout"]
