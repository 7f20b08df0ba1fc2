#!/usr/bin/env bash
# The output of tools/install_packages while it installs, with stand-ins for Debian's own programs.
# shellcheck disable=SC2016  # what stand-ins and patterns do not expand
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# holds NAME COMMAND...
holds() {
  if "${@:2}"; then
    passed=$((passed + 1)) && echo "ok: $1"
  else
    failed=$((failed + 1)) && echo "FAILED: $1"
    sed 's/^/    | /' "$folder/stderr" | head -5
  fi
}

stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$folder/bin/$1" && chmod +x "$folder/bin/$1"; }

# install GROUP: leaves $status, stdout, stderr.
install() {
  status=0
  PATH=$folder/bin:$PATH TMPDIR=$folder/logs tools/install_packages "$1" >"$folder/stdout" \
    2>"$folder/stderr" || status=$?
}
says_in_one_line() { (($(wc -l <"$folder/stderr") == 1)) && grep -qE "$1" "$folder/stderr"; }
says() { grep -qE "$1" "$folder/stderr"; }
is_empty() { [[ ! -s $1 ]]; }
ends_with() { ((status == $1)); }
logs_left() { (($(find "$folder/logs" -type f | wc -l) == $1)); }

mkdir "$folder/bin" "$folder/logs"
stand_in sudo 'exec "$@"'
stand_in apt-get 'seq -f "Unpacking part %.0f" 100; echo "$@" >>'"$folder/calls"

stand_in dpkg-query 'for name; do echo "$name installed"; done'
install lint
holds "prints nothing where nothing is missing" is_empty "$folder/stderr"

stand_in dpkg-query 'for name; do [ "$name" = git ] || echo "$name installed"; done; exit 1'
install lint
holds "succeeds" ends_with 0
holds "says in one line what it installs" says_in_one_line "needs: git$"
holds "prints no results" is_empty "$folder/stdout"
holds "installs what is missing" grep -qx -- '-q install -y --no-install-recommends git' "$folder/calls"
holds "leaves no log" logs_left 0

stand_in apt-get 'seq -f "Unpacking part %.0f" 100; echo "E: Unable to locate package git" >&2; exit 100'
install lint
holds "fails with apt-get" ends_with 1
holds "shows why" says "^E: Unable to locate package git"
holds "says where the rest is" says "all that it said is in $folder/logs/"
holds "leaves that log" logs_left 1

echo "$passed passed, $failed failed"
((failed == 0))
