# Shared by scripts of tests that consist only of commands that succeed or fail. To be sourced.
#
# Makes $folder, which is removed at the end. `finish` prints "N passed, N failed".
# shellcheck shell=bash
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# check NAME COMMAND...: the command must succeed; if it fails, its output is shown.
check() {
  if "${@:2}" >"$folder/output" 2>&1; then
    passed=$((passed + 1)) && echo "ok: $1"
  else
    failed=$((failed + 1)) && echo "FAILED: $1"
    head -20 "$folder/output" | sed 's/^/    | /'
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0))
}
