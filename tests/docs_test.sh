#!/usr/bin/env bash
# Files, headings, commands and options that the documents name exist. And the check finds faults.
# MANTISSA: the command.
# shellcheck disable=SC2016  # backticks are Markdown's
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

: "${MANTISSA:?names the binary to test}"
# shellcheck source=tests/checks.sh
source tests/checks.sh

check "the documents name what exists" tools/check_docs "$MANTISSA"

# Each command has a section of its own.
has_sections() {
  local command
  "$MANTISSA" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p' >"$folder/commands"
  [[ -s $folder/commands ]] || return
  while read -r command; do
    grep -x "## $command" docs/commands.md || { echo "no section for $command"; return 1; }
  done <"$folder/commands"
}
check "docs/commands.md has every command" has_sections

# README is what a newcomer reads first.
check "README has at most 1,400 words" test "$(wc -w <README.md)" -le 1400

# finds FAULT TEXT: the check names FAULT, and nothing else, in a page that holds TEXT.
copy=$folder/copy
mkdir -p "$copy"/{docs,src}
finds() {
  local status=0
  printf '# A page\n\nIt links to [itself](README.md#a-page).\n\n%s\n' "$2" >"$copy/README.md"
  tools/check_docs "$MANTISSA" "$copy" >"$folder/found" || status=$?
  cat "$folder/found"
  ((status == 1)) && [[ $(<"$folder/found") == "$1" ]]
}
faultless() {
  printf '# A page\n\n%s\n' "$1" >"$copy/README.md"
  tools/check_docs "$MANTISSA" "$copy"
}
block() { printf '```\n%s\n```' "$1"; }
check "a page without faults has none" faultless \
  '`mantissa train --epochs 3 | less` in `src/`, see [above](#a-page), [there](https://a.b/c).'
check "a link to no file" \
  finds 'README.md:5: the link docs/none.md leads to no file' '[x](docs/none.md)'
check "a link to no heading" finds 'README.md:5: README.md has no heading #page' '[x](#page)'
check "a path of no file" finds 'README.md:5: src/none.cpp does not exist' 'In `src/none.cpp`.'
check "a path in a block" \
  finds 'README.md:6: src/none.cpp does not exist' "$(block 'cat src/none.cpp')"
check "no such command" \
  finds 'README.md:6: mantissa has no command fly' "$(block 'mantissa fly --high')"
check "an option of another command" \
  finds 'README.md:5: mantissa eval has no option --epochs' 'Try `mantissa eval --epochs 3`.'
check "an option in a later line" finds 'README.md:6: mantissa train has no option --epoch' \
  "$(block $'$ FOO=1 mantissa train --quiet \\\n  --epoch 3')"
check "an option of nothing" \
  finds 'README.md:5: no program here has the option --speed' 'Set `--speed`.'
echo >"$copy/docs/other.md"
check "a page that nothing links to" finds 'docs/other.md:1: no document links to it' ''

finish
