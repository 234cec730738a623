#!/bin/sh
# Runs a command with what a fresh machine needs before cargo can run: a C compiler and Rust. Says what is missing where it cannot install it.
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
# times: what another checkout built later would be taken for ours. So one checkout at a time uses the folder (a lock, which lasts as
# long as what is run), and where another one did before, the crates (not what they need) are built anew.
here=$(cd "$(dirname "$0")/.." && pwd -P)
folder="${CARGO_TARGET_DIR:-$here/target}"
mkdir -p "$folder"
is_ours() { [ "$(cat "$folder/alluvia-checkout" 2>/dev/null)" = "$here" ]; }
take_over() {
  is_ours && return
  # The second is where make dist builds, for the target and for this machine.
  rm -rf "$folder"/*/.fingerprint/alluvia* "$folder"/*/.fingerprint/xtask* "$folder"/dist-build/*/*/.fingerprint/alluvia*
  printf '%s\n' "$here" > "$folder/alluvia-checkout"
}
if command -v flock >/dev/null 2>&1; then
  exec 9>>"$folder/alluvia-checkout.lock"
  flock -s 9
  until is_ours; do
    flock -n -x 9 || { echo "alluvia: waiting for $(cat "$folder/alluvia-checkout"), which uses $folder, too" >&2; flock -x 9; }
    take_over
    flock -s 9
  done
else
  take_over
fi
exec "$@"
