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
