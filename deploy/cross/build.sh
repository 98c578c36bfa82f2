#!/usr/bin/env bash
# Builds nyala for other machines: deploy/cross/build.sh TARGET OUTPUT [argument of cargo build …]
#
#   x86_64-unknown-linux-musl    one static file for every Linux; without Kerberos, whose library it cannot load
#   aarch64-unknown-linux-gnu    for machines with the C library of the Debian that builds it, or a newer one
#
# It builds in a Debian of its own, which it makes at first: as root, with mmdebstrap and the archive of Debian, in NYALA_CROSS
# (~/.cache/nyala-cross; 4 GB). NYALA_CROSS_SUITE (sid) and NYALA_CROSS_MIRROR name the Debian, NYALA_CROSS_APT an option of apt.
# Without arguments of cargo the program is optimised.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
target="$1"
output="$(realpath "$2")"
shift 2
[ $# -gt 0 ] || set -- --release
case "$target" in
  x86_64-unknown-linux-musl)
    # Objects of the C library are Debian's, not those that rustup would bring.
    settings=(
      CC_x86_64_unknown_linux_musl=musl-gcc
      CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc
      CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-C target-feature=+crt-static -C link-self-contained=no -L native=/unwind"
      RUSTC_BOOTSTRAP=1
    )
    strip=strip
    # Of the compiler's own library Debian has no build for musl: it is built from its source.
    set -- -Zbuild-std=std,panic_unwind "$@"
    ;;
  aarch64-unknown-linux-gnu)
    settings=(
      CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
      CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    )
    strip=aarch64-linux-gnu-strip
    ;;
  *)
    echo "no build for $target: x86_64-unknown-linux-musl or aarch64-unknown-linux-gnu" >&2
    exit 2
    ;;
esac

cd "$(dirname "$0")/../.."
source="$PWD"
place="${NYALA_CROSS:-${XDG_CACHE_HOME:-$HOME/.cache}/nyala-cross}"
mkdir -p "$place/cargo" "$place/build" "$output"
place="$(realpath "$place")"
system="$place/system"

packages=(
  ca-certificates cargo rustc gcc libc6-dev
  libstd-rust-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  rust-src musl-tools libunwind-19-dev
)
if [ ! -d "$system" ]; then
  rm -rf --one-file-system "$system.new"
  options=(--variant=minbase --architectures=amd64,arm64 --dpkgopt=force-unsafe-io)
  [ -z "${NYALA_CROSS_APT:-}" ] || options+=("--aptopt=$NYALA_CROSS_APT")
  include="$(IFS=,; echo "${packages[*]}")"
  # The archive that this machine takes its packages from, unless another one is named.
  mirror="${NYALA_CROSS_MIRROR:-$(apt-get indextargets --format '$(SITE)' | grep --max-count=1 '/debian/\?$')}"
  mmdebstrap "${options[@]}" --include="$include" "${NYALA_CROSS_SUITE:-sid}" "$system.new" "$mirror" >&2
  mkdir -p "$system.new"/{source,cargo,build}
  mv "$system.new" "$system"
fi
# Whom this machine trusts: between it and the registry there may be a proxy.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
fi
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"

if [ "$target" = x86_64-unknown-linux-musl ]; then
  # The library that unwinds stacks is LLVM's: that of gcc asks for what only glibc has. Debian has compiled LLVM's for glibc, too,
  # but what it asks for beyond musl is the checked form of two functions, by which it prints what is wrong with itself. What gcc's
  # code asks of its own library is there as well: rustc leaves that library out.
  mkdir -p "$system/unwind"
  cat > "$system/unwind/checked.c" <<'END'
#include <stdarg.h>
#include <stdio.h>
int __vfprintf_chk(FILE *file, int flag, const char *format, va_list arguments) {
    return vfprintf(file, format, arguments);
}
int __vsnprintf_chk(char *text, size_t length, int flag, size_t room, const char *format, va_list arguments) {
    return vsnprintf(text, length, format, arguments);
}
END
  chroot "$system" sh -euc 'cd /unwind
    musl-gcc -O2 -c checked.c
    printf "%s\n" "create libunwind.a" "addlib /usr/lib/llvm-19/lib/libunwind.a" "addlib $(gcc -print-libgcc-file-name)" \
      "addmod checked.o" save end | ar -M'
fi

# The commit is told, because git is not in there.
commit="$(git describe --always --tags --abbrev=12 2>/dev/null || echo unknown)"
# Mounts are of this process only, and gone with it.
unshare --mount --propagation private -- bash -euc '
  system="$1" source="$2" place="$3"
  shift 3
  mount --bind -o ro "$source" "$system/source"
  mount --bind "$place/cargo" "$system/cargo"
  mount --bind "$place/build" "$system/build"
  mount -t proc proc "$system/proc"
  mount --rbind /dev "$system/dev"
  exec chroot "$system" /usr/bin/env -i "$@"
' build "$system" "$source" "$place" \
  PATH=/usr/bin:/bin HOME=/root CARGO_HOME=/cargo CARGO_TARGET_DIR=/build NYALA_COMMIT="$commit" "${settings[@]}" \
  cargo build --manifest-path /source/Cargo.toml --locked --target "$target" --package nyala --bin nyala "$@" >&2

built="$(find "$place/build/$target" -maxdepth 2 -name nyala -type f -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)"
# What debuggers know of it stays in the other one.
install -m 755 "$built" "$system/tmp/nyala"
chroot "$system" "$strip" --strip-unneeded /tmp/nyala
mv "$system/tmp/nyala" "$output/nyala-$target"
echo "$output/nyala-$target"
