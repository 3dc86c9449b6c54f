"""The plan and the result of a sweep as terminal text."""

from __future__ import annotations

from typing import Any

from warpsight.reports.terminal import PLAIN, Style, counted

_MOST_REASONS, _MOST_NAMES = 5, 8


def plan_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The work of a study, one line per step, and how much of it is done."""
    designs = counted(document["designs"], "design")
    if document["excluded"]:
        designs += f" ({document['drawn']:,} drawn, {document['excluded']:,} excluded by constraints)"
    axes = " x ".join(f"{key} ({count:,})" for key, count in document["axes"].items()) or "none"
    kernels = counted(len(document["kernels"]), "kernel")
    lines = [
        style.strong(f"study {document['study']}: {designs} around {document['gpu']}, {kernels}"),
        f"  axes       {axes}",
        *([f"  derived    {', '.join(document['derived'])}"] if document["derived"] else []),
        f"  kernels    {_names(document['kernels'])}",
        f"  models     {_names(document['models'])}",
        "",
        f"  {'step':<20}{'total':>12}{'known':>12}{'to compute':>12}",
    ]
    for step in document["steps"]:
        missing = step["wanted"] - step["known"]
        lines.append(f"  {step['what']:<20}{step['wanted']:>12,}{step['known']:>12,}{missing:>12,}")
    if document["refused_designs"]:
        lines += ["", f"  {document['refused_designs']:,} designs have an invalid derived value; their rows will have the reason"]
    refused = list(document["refused_kernels"].items())
    for kernel, reason in refused[:_MOST_REASONS]:
        lines += ["", f"  {kernel} cannot run: {reason}"]
    if len(refused) > _MOST_REASONS:
        lines += ["", f"  and {len(refused) - _MOST_REASONS:,} more kernels"]
    return "\n".join([*lines, "", f"  results are kept in {document['results']}"])


def outcome_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """What a run computed, what was known before, and where the table is."""
    lines = [collected_text(document, style), ""]
    for step, computed in document["computed"].items():
        known = document["known"][step]
        if computed or known:
            lines.append(f"  {step:<14} {computed:,} computed, {known:,} known")
    if document["excluded_designs"]:
        lines.append(f"  constraints excluded {document['excluded_designs']:,} designs")
    lines.append(f"  {document['seconds']:.1f} s; results are kept in {document['kept_in']}")
    return "\n".join(lines)


def collected_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The contents of a study's table."""
    head = f"study {document['study']}: {counted(document['rows'], 'row')} of {counted(document['designs'], 'design')} "
    head += f"around {document['gpu']}, "
    head += f"{counted(len(document['kernels']), 'kernel')}, {counted(len(document['models']), 'model')}"
    lines = [style.strong(head), f"  {document['table']}"]
    if document.get("before"):
        lines.append(f"  results no longer in the table are kept in {document['before']}")
    if document["sampled_rows"]:
        widest = f"95 % confidence interval of the cycles: +-{100 * document['largest_half_width']:.2g} % or less"
        lines.append(f"  {counted(document['sampled_rows'], 'row')} from sampled waves; {widest}; --exact runs every block")
    if document["failed_rows"]:
        lines.append(f"  {counted(document['failed_rows'], 'row')} without a result:")
        reasons = list(document["reasons"].items())
        lines += [f"    {count:>8,}  {_first_line(reason)}" for reason, count in reasons[:_MOST_REASONS]]
        if len(reasons) > _MOST_REASONS:
            lines.append(f"    and {len(reasons) - _MOST_REASONS:,} other reasons, in the column `failed`")
    return "\n".join(lines)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _first_line(text: str) -> str:
    """The first line; after a colon also the second, such as a compiler's message."""
    first, *others = text.splitlines()
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first
