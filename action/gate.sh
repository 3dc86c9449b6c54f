#!/usr/bin/env bash
# Runs `warpsight gate` as the action does: PROJECT against BASE into FOLDER, with CHECK and REPORTS (true or false).
# Writes passed, folder and sarif to GITHUB_OUTPUT, and the table to GITHUB_STEP_SUMMARY. The action fails in a later step, so that
# a comment and the files come first; here only what is wrong in itself fails.
set -euo pipefail

words=("$PROJECT" -o "$FOLDER")
[ "${CHECK:-true}" = true ] && words+=(--check)
[ "${REPORTS:-true}" = true ] && words+=(--reports)

# The first push of a branch has no commit before it: its number is all zeros.
if [ -n "${BASE:-}" ] && [[ ! $BASE =~ ^0+$ ]]; then
  # checkouts are shallow: what the base is compared with may have to be fetched
  if ! git cat-file -e "$BASE^{commit}" 2>/dev/null && ! said=$(git fetch --quiet --depth=1 origin "$BASE" 2>&1); then
    echo "::error title=Warpsight::the base $BASE cannot be fetched; set the input base: ${said//$'\n'/ }"
    exit 2
  fi
  words+=(--base "$BASE")
fi

code=0
warpsight gate "${words[@]}" || code=$?
# 0 and 1 are answers; anything else is an error of the project, which has been printed
[ "$code" -le 1 ] || exit "$code"

passed=true
[ "$code" -eq 0 ] || passed=false
sarif=false
compgen -G "$FOLDER/*.sarif" >/dev/null && sarif=true
{
  echo "passed=$passed"
  echo "folder=$FOLDER"
  echo "sarif=$sarif"
} >>"${GITHUB_OUTPUT:-/dev/stdout}"
cat "$FOLDER/summary.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
