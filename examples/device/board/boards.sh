# Boards that qemu emulates, and how programs are built for them. To be sourced.
# shellcheck shell=bash

# Name : processor : flash at : its size : memory at : its size. Sizes are what qemu has: on all but
# microbit more than such a chip. FLASH_SIZE=16K and RAM_SIZE=4K make the linker refuse what would not
# fit a smaller one.
readonly boards="microbit:cortex-m0:0x0:256K:0x20000000:16K
mps2-an385:cortex-m3:0x0:4M:0x20000000:4M
mps2-an386:cortex-m4:0x0:4M:0x20000000:4M
mps2-an500:cortex-m7:0x0:4M:0x20000000:4M
mps3-an547:cortex-m55:0x10000000:512K:0x30000000:512K"

board_folder=$(dirname "${BASH_SOURCE[0]}")

# build_for_board BOARD OUTPUT FLAG-OR-SOURCE...: with STACK_SIZE (2048), FLASH_SIZE and
# RAM_SIZE (the board's).
# FLOAT_ABI=hard (soft) lets the compiler use a Cortex-M55's vectors, also for whole numbers.
build_for_board() {
  local line name cpu flash_at flash_size ram_at ram_size
  line=$(grep "^$1:" <<<"$boards")
  IFS=: read -r name cpu flash_at flash_size ram_at ram_size <<<"$line"
  arm-none-eabi-gcc -std=c99 -mcpu="$cpu" -mthumb -mfloat-abi="${FLOAT_ABI:-soft}" -ffreestanding \
    -ffunction-sections -fdata-sections -nostdlib -I"$board_folder" "${@:3}" \
    "$board_folder/cortexm.c" -T "$board_folder/cortexm.ld" -Wl,--gc-sections,--fatal-warnings \
    -Wl,-Map="$2.map" -Wl,--defsym=FLASH_AT="$flash_at",--defsym=FLASH_SIZE="${FLASH_SIZE:-$flash_size}" \
    -Wl,--defsym=RAM_AT="$ram_at",--defsym=RAM_SIZE="${RAM_SIZE:-$ram_size}" \
    -Wl,--defsym=STACK_SIZE="${STACK_SIZE:-2048}" -lgcc -o "$2"
}

# run_on_board BOARD PROGRAM ARGUMENT-OF-QEMU...
run_on_board() {
  timeout "${BOARD_SECONDS:-300}" qemu-system-arm -M "$1" -kernel "$2" -display none -monitor none -serial none \
    -chardev stdio,id=semi -semihosting-config enable=on,target=native,chardev=semi "${@:3}" \
    </dev/null
}
