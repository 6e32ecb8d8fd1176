#!/bin/sh
# Makes everything the project needs on a Debian 12 machine: system packages and .venv.
# Run through `make setup`; safe to run again. Needs root only when a package is missing.
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
# package        what it is for
packages="
iproute2         namespaces, veth pairs, bridges
ethtool          offload settings of the rig's ports
snmpd            the rig's switch answers SNMP with the real agent
snmp             second opinion on what snmpd says
lldpd            neighbours on the wire
openssh-server   the rig's DPUs are deployed to over the real sshd
prometheus-node-exporter  the host's own claim
prometheus-snmp-exporter  what the switch reader is compared with, in make bench
prometheus       what the cross-check is compared with, in make bench
prometheus-alertmanager  takes alerts, in tests and in make bench
nftables         traffic rules of the rig
clang            compiles the in-kernel meter
llvm             its object tools
libbpf-dev       its headers, and the library that loads it
libc6-dev        kernel-facing headers for it
make             this
procps           process tools in the rig
golang-go        a second reader of checkpoints and proofs, in tests
golang-golang-x-mod-dev  its sumdb/note and tlog
openssl          a second reader of signatures, in tests
swtpm            a TPM 2.0 in software, in tests
tpm2-tools       makes its quotes
libtss2-tcti-swtpm0  lets them talk
strace           lets single system calls fail, in tests
"

say() { printf '%s\n' "setup: $*" >&2; }

missing=""
for package in $(printf '%s' "$packages" | awk 'NF {print $1}'); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$missing python3-venv"
fi

if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        say "these system packages are missing:$missing"
        say "run 'make setup' once as root, or: apt-get install --no-install-recommends$missing"
        exit 2
    fi
    say "installing system packages:$missing"
    # A daemon that arrives with a package must not start on the operator's machine: the rig starts its own
    # copies inside namespaces. policy-rc.d is Debian's switch for that (invoke-rc.d(8)).
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT INT TERM
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # the list is meant to be split
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
    if [ -d /run/systemd/system ]; then
        for package in $missing; do
            case $package in
                snmpd | lldpd | prometheus | prometheus-snmp-exporter | prometheus-node-exporter | prometheus-alertmanager) systemctl disable --quiet --now "$package" || true ;;
                openssh-server) systemctl disable --quiet --now ssh || true ;;
            esac
        done
    fi
fi

"$PYTHON" - <<'PY' || exit 2
import sys
if sys.version_info < (3, 10):
    sys.exit(f"setup: Python 3.10 or later is needed, this is {sys.version.split()[0]}; set PYTHON=...")
PY

# A virtual environment names its own path in its scripts: one that was moved or copied is made anew.
if [ -x .venv/bin/python ] && ! grep -qF "$PWD/.venv" .venv/bin/activate 2>/dev/null; then
    say "this folder has moved since .venv was made; making it anew"
    rm -rf .venv
fi
if [ ! -x .venv/bin/python ]; then
    say "making .venv"
    "$PYTHON" -m venv .venv
fi
stamp=.venv/.weighbridge-setup
wanted=$(cat pyproject.toml constraints.txt hil/setup.sh | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "installing Python packages into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    printf '%s' "$wanted" >"$stamp"
fi
