#!/usr/bin/env bash
# Installs the programs that some tests need and that are missing, on Debian and Ubuntu.
#
# Only packages are installed. No service is started or left enabled, no database cluster is created,
# and what the installation needs changed for that is put back as it was.
set -euo pipefail

GO_AT_LEAST=1.21  # an older one can't fetch the version that tests/clients/go/go.mod names
CREATE_CLUSTER=/etc/postgresql-common/createcluster.conf
POLICY=/usr/sbin/policy-rc.d

has() { command -v "$1" >/dev/null 2>&1; }

has_postgresql_15() {
    local initdb
    for initdb in /usr/lib/postgresql/15/bin/initdb /opt/homebrew/opt/postgresql@15/bin/initdb initdb; do
        has "$initdb" && "$initdb" --version | grep -q ' 15\.' && return
    done
    return 1
}

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

missing() {  # what is missing, each as the name of what it is in Debian
    has chromium || has chromium-browser || has google-chrome || echo chromium
    has_postgresql_15 || echo postgresql-15
    compgen -G '/usr/lib/*/odbc/psqlodbcw.so' >/dev/null || echo odbc-postgresql
    has odbcinst || echo unixodbc
    has promtool && has prometheus || echo prometheus
    has node || echo nodejs
    has npm || echo npm
    has go || echo golang-go
    has "${JAVA_HOME:+$JAVA_HOME/bin/}javac" || has javac || echo openjdk-17-jdk-headless
}

# -- as root -----------------------------------------------------------------------------------------

candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: //p' | grep -v '(none)'; }

installable() {  # those of the packages that apt has
    local name version
    for name in "$@"; do
        version=$(candidate "$name") || version=
        case $name in
            openjdk-17-jdk-headless)
                [ -n "$version" ] || { name=default-jdk-headless; version=$(candidate "$name") || version=; } ;;
            golang-go)
                at_least "$GO_AT_LEAST" "${version#*:}" || {
                    echo "Left out: Go. apt has ${version:-none}; the tests need Go from go.dev/dl" >&2
                    continue
                } ;;
        esac
        if [ -n "$version" ]; then echo "$name"; else echo "Left out: $name, which apt does not have." >&2; fi
    done
}

apt_install() {
    [ $# -eq 0 ] || apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

put_back() {
    [ -z "${MADE_POLICY-}" ] || rm -f "$POLICY"
    [ -z "${KEPT_CLUSTER-}" ] || mv -f "$KEPT_CLUSTER" "$CREATE_CLUSTER"
}

install_as_root() {
    export DEBIAN_FRONTEND=noninteractive
    trap put_back EXIT
    if [ ! -e "$POLICY" ]; then  # with it, packages start no service
        MADE_POLICY=yes
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
    fi
    apt-get update --quiet
    local packages name
    mapfile -t packages < <(installable "$@")
    set -- "${packages[@]}"
    echo "Installing: ${*:-nothing}"
    if [[ " $* " == *" postgresql-15 "* ]]; then
        apt_install postgresql-common
        KEPT_CLUSTER=$(mktemp "$CREATE_CLUSTER.XXXXXX")
        cp -p "$CREATE_CLUSTER" "$KEPT_CLUSTER"
        echo 'create_main_cluster = false' >>"$CREATE_CLUSTER"
    fi
    # Some packages of Node.js contain npm, and conflict with Debian's.
    packages=()
    for name in "$@"; do [ "$name" = npm ] || packages+=("$name"); done
    apt_install "${packages[@]}"
    [ "${#packages[@]}" = $# ] || has npm || apt_install npm
    if has systemctl; then  # at the next start of the machine, too
        for name in "$@"; do
            case $name in
                postgresql-15) systemctl --quiet disable postgresql || true ;;
                prometheus) systemctl --quiet disable prometheus || true ;;
            esac
        done
    fi
}

# -- as whoever runs it ------------------------------------------------------------------------------

if [ "${1-}" = --as-root ]; then
    shift
    install_as_root "$@"
    exit
fi

mapfile -t packages < <(missing)
if [ "${#packages[@]}" = 0 ]; then
    echo "All programs that tests need are there; nothing was installed."
    exit
fi
echo "Missing: ${packages[*]}"
if ! has apt-get; then
    echo "This needs apt-get, and there is none. Install them in your system's way; the names are Debian's." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    bash "$0" --as-root "${packages[@]}"
elif has sudo; then
    sudo bash "$0" --as-root "${packages[@]}"
else
    echo "This must be run as root: bash $0 --as-root ${packages[*]}" >&2
    exit 1
fi
echo "Still missing: $(missing | paste -sd ' ' | grep . || echo nothing). Services were not started."
