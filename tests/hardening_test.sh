#!/usr/bin/env bash
# The built programs have the protections that cmake/compile_options.cmake asks for.
# MANTISSA, MANTISSA_CLANG: the programs that two compilers built.
# shellcheck disable=SC2016  # patterns
set -uo pipefail

: "${MANTISSA:?names the binary to test}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# check NAME FILE PATTERN: a line of the file matches.
check() {
  if grep -qE -- "$3" "$2"; then
    passed=$((passed + 1)) && echo "ok: $1"
  else
    failed=$((failed + 1)) && echo "FAILED: $1"
  fi
}

for program in "$MANTISSA" ${MANTISSA_CLANG:+"$MANTISSA_CLANG"}; do
  echo "$program"
  readelf --wide --file-header --program-headers --dynamic "$program" >"$folder/headers"
  nm --dynamic --undefined-only "$program" >"$folder/imports"
  objdump --disassemble --no-show-raw-insn "$program" >"$folder/code"
  grep -A1 '<main>:$' "$folder/code" >"$folder/main"

  check "lies at a random address" "$folder/headers" 'FLAGS_1.* PIE'
  check "resolves every symbol at the start" "$folder/headers" 'FLAGS_1.* NOW'
  check "and then write-protects their table" "$folder/headers" 'GNU_RELRO'
  check "has a stack that is not executable" "$folder/headers" 'GNU_STACK .* RW '
  check "guards return addresses" "$folder/imports" ' __stack_chk_fail'
  check "checks the sizes of copies" "$folder/imports" ' __(memcpy|memmove|memset|read)_chk'
  check "checks the indices of containers" "$folder/imports" 'glibcxx_assert_fail|verbose_terminate'
  # Frames of more than a page are touched page by page.
  check "touches each page of a large frame" "$folder/code" 'or[lq]? +\$0x0,.*\(%rsp\)'
  check "marks where calls may land" "$folder/main" 'endbr64'
done

echo "$passed passed, $failed failed"
((failed == 0))
