#!/usr/bin/env bash
# Runs a command of Go in the module of the benchmarks, with the product's requirements as
# they are in its go.mod now, so that a change there needs none here: in a copy of go.mod,
# to which they are added.
set -euo pipefail
cd "$(dirname "$0")"
copy=../../bin/bench
mkdir -p "$copy"
cp go.mod "$copy/go.mod"
sort -u go.sum ../../go.sum >"$copy/go.sum"
go mod edit $(awk '/^require \(/ {on = 1; next} /^\)/ {on = 0} on {print "-require=" $1 "@" $2}' ../../go.mod) "$copy/go.mod"
GOFLAGS="${GOFLAGS:-} -mod=mod -modfile=$copy/go.mod" exec "$@"
