# A fresh, minimal Debian in a temporary folder, for scripts that need one. To be sourced. Needs root,
# debootstrap and some 3 GB in $TMPDIR (or /tmp); all of it is removed at the end.
#
#   make_root RELEASE     makes $root; RELEASE is bookworm (Debian 12) or trixie (13)
#   in_root COMMAND...    runs a command there
#   timed NAME COMMAND... runs a command, and notes in $summary how long it took and how it ended
# shellcheck shell=bash

summary=()
timed() {
  local name=$1 start=$SECONDS status=0
  "${@:2}" || status=$?
  summary+=("$(printf '%-24s %5d s   exit %d' "$name" $((SECONDS - start)) $status)")
  return $status
}

mounts=()
# shellcheck disable=SC2317  # called by the trap
remove_root() {
  local point
  for point in "${mounts[@]}"; do
    umount -l "$root$point" || true
  done
  # Never delete through a mount that would not go.
  rm -rf --one-file-system "$root"
}

make_root() {
  local release=$1 mirror file point
  ((EUID == 0)) || { echo "$0: must be root (chroot, mount)" >&2; exit 2; }
  command -v debootstrap >/dev/null || { echo "$0: install debootstrap" >&2; exit 2; }
  # The host's mirror of Debian proper, from either form of apt's sources.
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
    sed -nE 's/^(deb +(\[[^]]*\] +)?|URIs: *)(https?:[^ ]*\/debian)\/?( .*)?$/\3/p' | sed -n 1p || true)
  mirror=${mirror:-http://deb.debian.org/debian}

  root=$(mktemp -d "${TMPDIR:-/tmp}/fresh-debian.XXXXXX")
  chmod 755 "$root"  # apt downloads as a user of its own
  trap remove_root EXIT
  trap 'exit 130' INT TERM

  export DEBIAN_FRONTEND=noninteractive
  if ! timed debootstrap debootstrap --variant=minbase "$release" "$root" "$mirror" \
    >"$root.log" 2>&1; then
    tail -n 20 "$root.log" >&2
    rm -f "$root.log"
    exit 1
  fi
  rm -f "$root.log"

  # The host's mirror and proxies.
  echo "deb $mirror $release main" >"$root/etc/apt/sources.list"
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy*; do
    if [[ -f $file ]]; then install -D -m 644 "$file" "$root$file"; fi
  done
  cp /etc/resolv.conf /etc/hosts "$root/etc/"

  for point in /proc /dev /dev/pts; do
    mount --bind $point "$root$point"
    mounts=("$point" "${mounts[@]}")
  done
}

in_root() {
  chroot "$root" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} "$@"
}
