#!/usr/bin/env bash
# Records testdata/influxdb2.tar.gz anew: a directory of InfluxDB 2.7, and what it exports. Needs Go and a C compiler.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -c -O1 -o "$work/libflux.o" libflux/libflux.c
ar rcs "$work/libflux.a" "$work/libflux.o"
include="$(go list -mod=mod -m -f '{{.Dir}}' github.com/influxdata/flux)/libflux/include"
printf '#!/bin/sh\ncase "$*" in *--cflags*) echo "-I%s";; *--libs*) echo "-lflux";; esac\n' "$include" > "$work/pkg-config"
chmod +x "$work/pkg-config"
# Go keeps what pkg-config says, so the directory, which is another each time, is told the linker.
PKG_CONFIG="$work/pkg-config" go build -mod=mod -ldflags "-extldflags=-L$work" -o "$work/engine" .
"$work/engine" "$work/influxdb2" "$work/exports"
# What InfluxDB makes again from the points is left out.
tar --create --gzip --file ../../testdata/influxdb2.tar.gz --directory "$work" --exclude _series --exclude index \
    --exclude 'fields.idx*' influxdb2 exports
