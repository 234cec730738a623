#!/bin/sh
# What a fresh machine needs before cargo can run: a C compiler and Rust. Says what is missing where it cannot install it.
set -eu
need_apt=""
command -v cc >/dev/null 2>&1 || need_apt="$need_apt build-essential"
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || need_apt="$need_apt python3-venv"
if [ -n "$need_apt" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq $need_apt
  else
    echo "alluvia: please install:$need_apt" >&2
    exit 1
  fi
fi
if ! command -v cargo >/dev/null 2>&1; then
  echo "alluvia: please install Rust with rustup (https://rustup.rs); rust-toolchain.toml names the version" >&2
  exit 1
fi
# Checkouts share a target folder, for DataFusion's sake. Cargo names the workspace's crates by their paths within it and compares
# times: what another checkout built later would be taken for ours, so the crates (not what they need) are built anew.
here=$(cd "$(dirname "$0")/.." && pwd -P)
built_by="${CARGO_TARGET_DIR:-$here/target}/alluvia-checkout"
if [ -d "$(dirname "$built_by")" ] && [ "$(cat "$built_by" 2>/dev/null)" != "$here" ]; then
  rm -rf "$(dirname "$built_by")"/*/.fingerprint/alluvia* "$(dirname "$built_by")"/*/.fingerprint/xtask*
fi
mkdir -p "$(dirname "$built_by")"
printf '%s\n' "$here" > "$built_by"
