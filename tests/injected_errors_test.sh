#!/usr/bin/env bash
# Errors and kills at system calls of a run: a case of each kind of tests/long/injected_errors.
set -euo pipefail
: "${MANTISSA:?names the binary to test}"
exec "$(dirname "${BASH_SOURCE[0]}")/long/injected_errors" --program "$MANTISSA" --sample 200
