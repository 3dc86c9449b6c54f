#!/usr/bin/env bash
# Installs what the tests of reports in a browser need: Debian's chromium-headless-shell (or chromium) and firefox-esr, and axe-core of
# the npm registry. Playwright, which drives chromium, comes with the test extra. Prints what a shell must export:
#
#   eval "$(tools/browser.sh FOLDER)"
#
# axe-core goes into FOLDER (default: a new one under /tmp), the browsers into the system, for which one has to be root. Exits with 1,
# and says why, if something is missing in the end; the tests that need it then skip.
set -euo pipefail
AXE=4.14.1
AXE_SHA512=1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5

folder=${1:-$(mktemp -d "${TMPDIR:-/tmp}/warpsight-browser.XXXXXX")}
mkdir -p "$folder"
log=$folder/install.log
missing=0

# missed WHAT: says it, with the end of what the installation printed.
missed() {
  printf 'note: %s\n' "$1" >&2
  if [ -s "$log" ]; then tail -n 3 "$log" >&2; fi
  missing=1
}

# has PROGRAM PACKAGE: it is there, or can be installed.
has() {
  if command -v "$1" >/dev/null; then return 0; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return 1; fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$2" >"$log" 2>&1 ||
    { apt-get update && apt-get install -y --no-install-recommends "$2"; } >"$log" 2>&1
}

# The headless shell is Chromium without what is around a page: it takes half the processor time.
for chromium in chromium-headless-shell chromium ""; do
  if [ -z "$chromium" ]; then
    missed "no chromium: as root, apt-get install chromium-headless-shell"
  elif has "$chromium" "$chromium"; then
    printf 'export WARPSIGHT_CHROMIUM=%q\n' "$(command -v "$chromium")"
    break
  fi
done

# Its test skips without it.
has firefox-esr firefox-esr || printf 'note: no firefox-esr: the explorer is not tried in it\n' >&2

archive=$folder/axe-core-$AXE.tgz
if [ -f "$archive" ] || { has npm npm && npm pack "axe-core@$AXE" --pack-destination "$folder" --silent >"$log" 2>&1; }; then
  if printf '%s  %s\n' "$AXE_SHA512" "$archive" | sha512sum --check --quiet - >"$log" 2>&1; then
    tar -xzf "$archive" -C "$folder" package/axe.min.js
    printf 'export WARPSIGHT_AXE=%q\n' "$(cd "$folder" && pwd)/package/axe.min.js"
  else
    missed "$archive is not what axe-core $AXE was: its checksum differs"
  fi
else
  missed "no axe-core: npm pack axe-core@$AXE does not work here"
fi
exit "$missing"
