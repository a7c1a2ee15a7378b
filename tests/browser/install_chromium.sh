#!/bin/sh
# Puts Debian's chromium and fonts-noto-cjk in place for the browser tests, where they are missing
# and this user may. Ends with status 1 and says what to install where it may not.
set -eu

has_browser() { command -v "${CHROMIUM:-chromium}" >/dev/null 2>&1; }
has_fonts() { fc-list :lang=zh-cn family 2>/dev/null | grep -q .; }

missing() {
  has_browser || printf ' chromium'
  has_fonts || printf ' fonts-noto-cjk fontconfig'
}

packages=$(missing)
[ -z "$packages" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  why="there is no apt-get"
elif [ "$(id -u)" = 0 ]; then
  why="" as=""
elif sudo -n true 2>/dev/null; then
  why="" as="sudo -n"
else
  why="this user may not install packages"
fi

if [ -z "$why" ]; then
  echo "Installing$packages"
  log=$(mktemp)
  # shellcheck disable=SC2086  # several packages, and sudo with its option
  if $as apt-get update -q >"$log" 2>&1 &&
    $as env DEBIAN_FRONTEND=noninteractive apt-get install -q -y $packages >>"$log" 2>&1; then
    rm -f "$log"
    packages=$(missing)
    [ -z "$packages" ] && exit 0
    why="apt-get left them missing"
  else
    tail -n 15 "$log" >&2
    why="apt-get failed"
  fi
fi

echo "The browser tests need Debian's packages$packages, and $why." >&2
echo "Install them (apt-get install$packages) or name another Chromium: CHROMIUM=/path/to/chromium make test-browser" >&2
exit 1
