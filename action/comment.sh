#!/usr/bin/env bash
# Puts FOLDER/summary.md on pull request NUMBER: into the comment that an earlier run has left, else into a new one. A token that
# may not comment (of a pull request from a fork, or of Dependabot) is a warning: the table is in the job summary, too.
set -euo pipefail

[ -f "$FOLDER/summary.md" ] || exit 0
marker=$(head -n 1 "$FOLDER/summary.md") # a comment of HTML, which nobody sees
comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"

post() {
  local earlier
  earlier=$(gh api --paginate "$comments" --jq '.[] | [.id, (.body | split("\n")[0])] | @tsv' |
    awk -F '\t' -v marker="$marker" '{ sub(/\\r$/, "", $2) } $2 == marker { print $1 }' | tail -n 1) || return
  if [ -n "$earlier" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F body=@"$FOLDER/summary.md"
  else
    gh api --silent --method POST "$comments" -F body=@"$FOLDER/summary.md"
  fi
}

said=$(post 2>&1) || echo "::warning title=Warpsight::the table is in the job summary, but not on the pull request: ${said//$'\n'/ }"
