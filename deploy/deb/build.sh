#!/usr/bin/env bash
# Makes a Debian package out of a built program: deploy/deb/build.sh target/release/nyala DIRECTORY
#
# It needs dpkg-dev and binutils, and no network. The same program and commit give the same package. NYALA_DEB_COMPRESSION
# (xz unless it says gzip, zstd or none) is for those who cannot wait.
set -euo pipefail

if [ $# -ne 2 ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
program="$(realpath "$1")"
output="$(realpath "$2")"
cd "$(dirname "$0")/../.."

# "nyala 0.1.0 (0123456789ab)".
version="$("$program" --version | cut -d' ' -f2)"
architecture="$(dpkg --print-architecture)"
# Who answers for this package: "Name <address>".
maintainer="${NYALA_DEB_MAINTAINER:-nyala <nyala@localhost>}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
export SOURCE_DATE_EPOCH

stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
root="$stage/root"
put() { install -D -m "$1" "$2" "$root/$3"; }

put 755 "$program" usr/bin/nyala
strip --strip-unneeded "$root/usr/bin/nyala"
put 644 deploy/nyala.toml etc/nyala/nyala.toml
put 644 deploy/systemd/nyala.service usr/lib/systemd/system/nyala.service
put 644 deploy/systemd/sysusers.conf usr/lib/sysusers.d/nyala.conf
put 644 deploy/systemd/tmpfiles.conf usr/lib/tmpfiles.d/nyala.conf
for name in overview storage; do
  put 644 "deploy/grafana/$name.json" "usr/share/nyala/grafana/$name.json"
done
for name in alerts.yml alerts.test.yml; do
  put 644 "deploy/prometheus/$name" "usr/share/nyala/prometheus/$name"
done

mkdir -p "$stage/completions" "$stage/man"
for shell in bash zsh fish; do
  "$program" completions "$shell" > "$stage/completions/$shell"
done
put 644 "$stage/completions/bash" usr/share/bash-completion/completions/nyala
put 644 "$stage/completions/zsh" usr/share/zsh/vendor-completions/_nyala
put 644 "$stage/completions/fish" usr/share/fish/vendor_completions.d/nyala.fish
"$program" man "$stage/man"
gzip -9n "$stage"/man/*.1
for page in "$stage"/man/*.1.gz; do
  put 644 "$page" "usr/share/man/man1/$(basename "$page")"
done

# As they lie in the repository, so that their links lead somewhere.
find docs -type f -print0 | while IFS= read -r -d '' page; do
  put 644 "$page" "usr/share/doc/nyala/$page"
done
for page in README ARCHITECTURE CHANGELOG CONTRIBUTING SECURITY STYLE; do
  put 644 "$page.md" "usr/share/doc/nyala/$page.md"
done
ln -s ../../nyala "$root/usr/share/doc/nyala/deploy"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: nyala\n\n'
  printf 'Files: *\nCopyright: 2026 the authors of nyala\nLicense: Apache-2.0\n'
  printf ' On Debian systems, the text of this licence is in /usr/share/common-licenses/Apache-2.0.\n'
} > "$stage/copyright"
put 644 "$stage/copyright" usr/share/doc/nyala/copyright
{
  printf 'nyala (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n > "$stage/changelog.Debian.gz"
put 644 "$stage/changelog.Debian.gz" usr/share/doc/nyala/changelog.Debian.gz
gzip -9nc CHANGELOG.md > "$stage/changelog.gz"
put 644 "$stage/changelog.gz" usr/share/doc/nyala/changelog.gz

# The libraries that it was linked with, as the tools of Debian find them.
mkdir -p "$stage/debian"
printf 'Source: nyala\n\nPackage: nyala\nArchitecture: any\n' > "$stage/debian/control"
libraries="$(cd "$stage" && dpkg-shlibdeps -O "$root/usr/bin/nyala" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')"

mkdir -p "$root/DEBIAN"
{
  printf 'Package: nyala\nVersion: %s\nArchitecture: %s\n' "$version" "$architecture"
  printf 'Maintainer: %s\nSection: database\nPriority: optional\n' "$maintainer"
  printf 'Installed-Size: %s\n' "$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)"
  printf 'Depends: %s, init-system-helpers (>= 1.54), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles\n' \
    "$libraries"
  printf 'Recommends: ca-certificates\nSuggests: prometheus\n'
  printf 'Description: time-series database that takes the place of InfluxDB 1.x\n'
  printf ' It has the HTTP API, the line protocol and the query language of InfluxDB 1.x,\n'
  printf ' and SQL over the protocol of PostgreSQL. What it has acknowledged is on disk;\n'
  printf ' its memory stays within a limit.\n'
} > "$root/DEBIAN/control"
printf '/etc/nyala/nyala.toml\n' > "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
  install -m 755 "deploy/deb/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
find "$root" -type d -exec chmod 755 {} +
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

package="$output/nyala_${version}_$architecture.deb"
dpkg-deb --root-owner-group -Z"${NYALA_DEB_COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
