#!/usr/bin/env bash
# Puts FOLDER/summary.md on pull request NUMBER: into the comment that an earlier run has left, else into a new one.
set -euo pipefail

[ -f "$FOLDER/summary.md" ] || exit 0
marker=$(head -n 1 "$FOLDER/summary.md") # a comment of HTML, which nobody sees
earlier=$(gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" --jq '.[] | [.id, (.body | split("\n")[0])] | @tsv' |
  awk -F '\t' -v marker="$marker" '{ sub(/\\r$/, "", $2) } $2 == marker { print $1 }' | tail -n 1)
if [ -n "$earlier" ]; then
  gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F body=@"$FOLDER/summary.md"
else
  gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" -F body=@"$FOLDER/summary.md"
fi
