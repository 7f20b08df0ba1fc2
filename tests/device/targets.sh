# Builds and runs an exported network on many machines. To be sourced.
# shellcheck shell=bash
#
# Needs arm-none-eabi-gcc, qemu-system-arm, qemu-user and the cross compilers of Debian; machines whose
# tools are missing are skipped, and named.

device_tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../examples/device/board/boards.sh
source "$device_tests/../../examples/device/board/boards.sh"

readonly strict=(-std=c99 -Wall -Wextra -Wconversion -pedantic -Werror)

# sources_of FOLDER: the C files of an export, without its examples.
sources_of() { find "$1" -name '*.c' ! -path "$1/example.c" ! -path "$1/train.c" | sort; }

# objects_of COMPILER EXPORT DATA FLAG...: compiles the program's files, and prints the objects. Exports
# share most files: of equal text, after its headers, there is one object for the same flags.
objects_of() {
  local compile=("$1" "${strict[@]}" "${@:4}" -I"$2" -I"$3" -I"$board_folder") source key object
  local shared=${folder:-$2}/objects
  mkdir -p "$shared"
  for source in $(sources_of "$2") "$device_tests/program.c" "$board_folder/host.c"; do
    key=$({ echo "$1 ${*:4}" && "${compile[@]}" -E -P "$source"; } | sha256sum) || return
    object=$shared/${key%% *}.o
    [[ -e $object ]] || "${compile[@]}" -c "$source" -o "$object" || return
    echo "$object"
  done
}

# run_hosted NAME COMPILER EMULATOR EXPORT DATA FLAG...: prints what the program prints.
run_hosted() {
  local program=$4/$1.out objects
  objects=$(objects_of "$2" "$4" "$5" "${@:6}") || return
  # shellcheck disable=SC2086
  $2 "${@:6}" $objects -o "$program" && $3 "$program"
}

# run_board BOARD EXPORT DATA FLAG...
run_board() {
  local program=$2/$1.elf
  # shellcheck disable=SC2046
  build_for_board "$1" "$program" -Wall -Wextra -Wconversion -Werror "${@:4}" -I"$2" -I"$3" \
    $(sources_of "$2") "$device_tests/program.c" && run_on_board "$1" "$program"
}

# Helpers of the compiler that compute with whole numbers. A program that links anything else of its
# library, of C's or of floating point, is refused: a list of what is forbidden would forget names.
readonly whole_number_helpers='^__(aeabi_(u?l?div(mod)?|u?idiv(mod)?|u?ldivmod|lmul|lasr|llsl|llsr|u?lcmp|[il]div0|mem(cpy|set|clr|move)[48]?)|(u?div|u?mod|mul|ashl|ashr|lshr|clz|ctz|neg|u?cmp)[ds]i[234]|u?divmoddi4|gnu_u?ldivmod_helper|gnu_thumb1_case_(s|u)?(q|h|s)i|clz_tab)$'

# has_no_library PROGRAM: prints what it should not have.
has_no_library() {
  ! arm-none-eabi-nm "$1" | awk '{ print $NF }' |
    grep -E '^_?_(aeabi|[a-z]+[sdtx]f|gnu|sbrk|malloc|float|fix)|^_+(u?(div|mod|mul|ashl|ashr|lshr|clz|ctz|popcount|neg|cmp)[a-z]*[0-9])|^(m|c|re)alloc|^free$|printf|^(exp|log|pow|sqrt)f?$' |
    grep -vE "$whole_number_helpers"
}
