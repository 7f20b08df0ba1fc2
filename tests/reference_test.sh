#!/usr/bin/env bash
# The reference, src/reference, and the real scalars of its rows, src/scalars, are freestanding C99:
# they build without warnings for processors without an operating system, without a library and
# without floating point. Their objects need nothing but the memory functions that a compiler may
# call, and on 32-bit processors the compiler's own division of 64-bit integers; they have no
# variables. And the reference is short.
#
# Skips a processor whose compiler is not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/checks.sh

readonly most_lines=4300
readonly flags=(-std=c99 -Os -Wall -Wextra -Wconversion -Werror -ffreestanding -Isrc)

# builds COMPILER FLAG...: every file becomes an object in $objects.
builds() {
  for file in src/reference/*/*.c src/scalars/*.c; do
    "$@" "${flags[@]}" -c "$file" -o "$objects/$(basename "$file" .c).o" || return 1
  done
}

# needs_nothing PREFIX: undefined symbols that no object of the reference defines.
needs_nothing() {
  local unknown
  unknown=$(comm -23 <("$1nm" -u "$objects"/*.o | awk '$1 == "U" { print $2 }' | sort -u) \
    <("$1nm" --defined-only "$objects"/*.o | awk 'NF == 3 { print $3 }' | sort -u) |
    grep -vxE 'memcpy|memset|memmove|memcmp|__aeabi_u?ldivmod' || true)
  [[ -z $unknown ]] || { echo "$unknown" && return 1; }
}

has_no_variables() {
  "$1size" "$objects"/*.o | awk 'NR > 1 && $2 + $3 > 0 { print; bad = 1 } END { exit bad }'
}

has_no_wide_or_real_numbers() {
  ! grep -nE '__int128|\b(double|long double)\b' src/reference/*.h src/reference/*/*.[ch] &&
    ! grep -nE '\bfloat\b' src/reference/*.h src/reference/*/*.[ch] | grep -vE '//.*\bfloat\b|const float\*'
}

# Without comments, blank lines, and members that only C++ sees.
is_short() {
  local lines
  lines=$(sed '/^#ifdef __cplusplus/,/^#\(else\|endif\)/d' src/reference/*.h src/reference/*/*.[ch] |
    grep -cvE '^[[:space:]]*(//.*)?$')
  echo "$lines lines of C"
  ((lines <= most_lines))
}

# processor PREFIX FLAG...
processor() {
  command -v "$1gcc" >/dev/null || { echo "skipped: no $1gcc" && return; }
  objects=$folder/$1
  mkdir "$objects"
  check "builds by $1gcc" builds "$1gcc" "${@:2}"
  check "$1: needs no library" needs_nothing "$1"
  check "$1: no variables" has_no_variables "$1"
}

check "no __int128, no real numbers" has_no_wide_or_real_numbers
check "at most $most_lines lines of C" is_short
processor arm-none-eabi- -mcpu=cortex-m4 -mthumb -mfloat-abi=soft
processor riscv64-unknown-elf- -march=rv64imac -mabi=lp64
finish
