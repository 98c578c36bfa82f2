#!/usr/bin/env bash
# Builds nyala as one static file for every Linux: deploy/cross/build.sh TARGET OUTPUT [argument of cargo build …]
#
# TARGET is x86_64-unknown-linux-musl or aarch64-unknown-linux-musl. The program has no Kerberos, whose library it cannot load.
#
# It builds in a Debian of its own, which it makes at first: as root, with mmdebstrap and the archive of Debian, in NYALA_CROSS
# (~/.cache/nyala-cross; 4 GB). NYALA_CROSS_SUITE (sid) and NYALA_CROSS_MIRROR name the Debian, NYALA_CROSS_APT an option of apt.
# Without arguments of cargo the program is optimised.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
target="$1"
output="$(realpath "$2")"
shift 2
[ $# -gt 0 ] || set -- --release
case "$target" in
  x86_64-unknown-linux-musl) machine=x86_64 debian=amd64 ;;
  aarch64-unknown-linux-musl) machine=aarch64 debian=arm64 ;;
  *)
    echo "no build for $target: x86_64-unknown-linux-musl or aarch64-unknown-linux-musl" >&2
    exit 2
    ;;
esac
# Binutils and the C compiler of that machine, and the same compiler with musl instead of glibc.
gnu="$machine-linux-gnu" musl_gcc="$machine-linux-musl-gcc"

cd "$(dirname "$0")/../.."
source="$PWD"
place="${NYALA_CROSS:-${XDG_CACHE_HOME:-$HOME/.cache}/nyala-cross}"
mkdir -p "$place/cargo" "$place/build" "$output"
place="$(realpath "$place")"
suite="${NYALA_CROSS_SUITE:-sid}"
system="$place/static-$suite"

packages=(
  ca-certificates cargo rustc rust-src gcc libc6-dev gcc-aarch64-linux-gnu
  musl-dev:amd64 musl-dev:arm64
)
if [ ! -d "$system" ]; then
  rm -rf --one-file-system "$system.new"
  options=(--variant=minbase --architectures=amd64,arm64 --dpkgopt=force-unsafe-io)
  [ -z "${NYALA_CROSS_APT:-}" ] || options+=("--aptopt=$NYALA_CROSS_APT")
  include="$(IFS=,; echo "${packages[*]}")"
  # Debian cannot install this library for two machines at once. Of it one archive of objects is needed.
  # shellcheck disable=SC2016
  unwinder='chroot "$1" sh -euc "mkdir /unwind && cd /unwind
    for debian in amd64 arm64; do
      apt-get download --quiet libunwind-19-dev:\$debian
      dpkg-deb --extract libunwind-19-dev_*_\$debian.deb \$debian
    done"'
  # The archive that this machine takes its packages from, unless another one is named.
  mirror="${NYALA_CROSS_MIRROR:-$(apt-get indextargets --format '$(SITE)' | grep --max-count=1 '/debian/\?$')}"
  mmdebstrap "${options[@]}" --include="$include" --customize-hook="$unwinder" "$suite" "$system.new" "$mirror" >&2
  mkdir -p "$system.new"/{source,cargo,build}
  mv "$system.new" "$system"
fi
# Whom this machine trusts: between it and the registry there may be a proxy.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
fi
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"

# The library that unwinds stacks is LLVM's: that of gcc asks for what only glibc has. Debian has compiled LLVM's for glibc, too,
# but what it asks for beyond musl is the checked form of two functions, by which it prints what is wrong with itself. What gcc's
# code asks of its own library is there as well: rustc leaves that library out.
mkdir -p "$system/unwind/$target"
cat > "$system/unwind/$target/checked.c" <<'END'
#include <stdarg.h>
#include <stdio.h>
int __vfprintf_chk(FILE *file, int flag, const char *format, va_list arguments) {
    return vfprintf(file, format, arguments);
}
int __vsnprintf_chk(char *text, size_t length, int flag, size_t room, const char *format, va_list arguments) {
    return vsnprintf(text, length, format, arguments);
}
END
# shellcheck disable=SC2016
chroot "$system" sh -euc 'cd "/unwind/$1"
  "$4" -O2 -c checked.c
  printf "%s\n" "create libunwind.a" "addlib ../$2/usr/lib/$3/libunwind.a" "addlib $("$3-gcc" -print-libgcc-file-name)" \
    "addmod checked.o" save end | "$3-ar" -M' unwind "$target" "$debian" "$gnu" "$musl_gcc"

# Objects of the C library are Debian's, not those that rustup would bring. Of the compiler's own library Debian has no build for
# musl: it is built from its source.
named="${target//-/_}"
settings=(
  "CC_$named=$musl_gcc"
  "AR_$named=$gnu-ar"
  "CARGO_TARGET_${named^^}_LINKER=$musl_gcc"
  "CARGO_TARGET_${named^^}_RUSTFLAGS=-C target-feature=+crt-static -C link-self-contained=no -L native=/unwind/$target"
  RUSTC_BOOTSTRAP=1
)
set -- -Zbuild-std=std,panic_unwind "$@"

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
chroot "$system" "$gnu-strip" --strip-unneeded /tmp/nyala
mv "$system/tmp/nyala" "$output/nyala-$target"
echo "$output/nyala-$target"
