#!/usr/bin/env bash
# Makes a container image out of the static program: deploy/container/build.sh PROGRAM IMAGE [option of the builder …]
#
# deploy/cross/build.sh makes the program. The builder is podman, buildah or docker, whichever is there, or what NYALA_BUILDER
# says. No other image is fetched.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
program="$(realpath "$1")"
image="$2"
shift 2
cd "$(dirname "$0")"

# In an image without a C library a program that needs one does not start, and says only that there is no such file.
if readelf --program-headers "$program" | grep -q INTERP; then
  echo "$program is not linked statically: build it with deploy/cross/build.sh x86_64-unknown-linux-musl DIRECTORY" >&2
  exit 1
fi

context="$(mktemp -d)"
trap 'rm -rf "$context"' EXIT
install -D -m 755 "$program" "$context/root/usr/bin/nyala"
# Whom it trusts when it calls others: subscribers, buckets.
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$context/root/etc/ssl/certs/ca-certificates.crt"
printf 'root:x:0:0::/:/sbin/nologin\nnyala:x:65532:65532::/var/lib/nyala:/sbin/nologin\n' > "$context/root/etc/passwd"
printf 'root:x:0:\nnyala:x:65532:\n' > "$context/root/etc/group"
install -d -m 755 "$context/root/var/lib"
install -d -m 1777 "$context/root/tmp"
install -d -m 700 "$context/data/nyala"

builder="${NYALA_BUILDER:-}"
for found in podman buildah docker; do
  [ -n "$builder" ] || ! command -v "$found" >/dev/null || builder="$found"
done
if [ -z "$builder" ]; then
  echo "install podman, buildah or docker" >&2
  exit 1
fi
"$builder" build --file Containerfile --tag "$image" "$@" "$context" >&2
