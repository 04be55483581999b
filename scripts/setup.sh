#!/usr/bin/env bash
# Installs what qlft needs on Debian 12 (or a system with the same package names):
#     scripts/setup.sh          to build qlft
#     scripts/setup.sh model    also to fetch the small model
#     scripts/setup.sh tests    also to build and run the tests
# Does nothing if everything is there, so it needs root (or sudo) only where something is missing. README.md says what each package is for.
set -euo pipefail

packages=(build-essential cmake ninja-build pkg-config
    libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev zlib1g-dev nettle-dev libsentencepiece-dev)
for part in "$@"; do
    case $part in
    model) packages+=(ca-certificates python3 python3-pip) ;;
    tests) packages+=(libcriterion-dev clang-format-14 git) ;;
    *) echo "setup.sh: unknown part $part: model and tests are known" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: this is no Debian: install the equivalents of: ${packages[*]}" >&2
    exit 0
fi
missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup.sh: these packages are missing and only root can install them: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
