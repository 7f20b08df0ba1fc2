#!/usr/bin/env bash
# A language model over HTTP, as OpenAI's API has it.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python3 "$(dirname "${BASH_SOURCE[0]}")/language_server.py" "$MANTISSA" "$folder" \
  >"$folder/stdout" 2>"$folder/stderr"
status=$?
cat "$folder/stdout"
passed=$(grep -c '^ok: ' "$folder/stdout") failed=$(grep -c '^FAILED: ' "$folder/stdout")
holds "all was asked" eval '((status == 0)) && grep -qx "all asked" "$folder/stdout"'
finish
