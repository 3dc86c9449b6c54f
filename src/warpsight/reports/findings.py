"""What `warpsight check` has found: text as users of compute-sanitizer know it, and SARIF 2.1.0 for code hosting and editors.

Documents are those of `pipeline.checking`. A finding has one wording (`describe`), which both forms show.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warpsight.base.findings import INITCHECK, MEMCHECK, ORDER, RACECHECK, SYNCCHECK
from warpsight.reports.terminal import PLAIN, Style, counted

_PREFIX = "========="
_SPACES = {"global": "__global__", "shared": "__shared__", "local": "__local__", "const": "__constant__"}
# Of an access with an address: what is wrong with it, as the end of "Access at 0x... ".
_WRONG = {
    "misaligned": "is misaligned", "read-only": "is in constant memory", "use-after-free": "is in memory that is free",
}  # fmt: skip
_OUTSIDE = "is out of bounds"


# -- One finding in words.

def describe(row: dict[str, Any], root: str = "") -> tuple[str, list[str]]:
    """The headline of a finding, and what follows it, line by line. Files under the folder `root` are named from there."""
    site, other = row["site"], row["other"]
    if row["tool"] == RACECHECK and site and other:
        return _race(row, site, other, root)
    row = {**row, "message": row["message"].replace(f"{root.rstrip('/')}/", "")} if root else row
    headline = _headline(row)
    lines = [] if site is None else _places(site, row["kernel"], root)
    if site and site["thread"] is not None:
        lines.append(f"by {_thread(site)}")
    lines += _address(row)
    if headline != row["message"] and _says_more(row):
        lines.append(row["message"])
    if other:
        lines += [f"and {line}" if number == 0 else line for number, line in enumerate(_places(other, row["kernel"], root))]
        lines += [f"by {_thread(other)}"] if other["thread"] is not None else []
    return headline, [*lines, *_how_often(row)]


def _headline(row: dict[str, Any]) -> str:
    what, size = (row["site"] or {}).get("what", ""), f"of size {row['bytes']:,} bytes"
    space = _SPACES.get(row["space"], row["space"])
    if row["tool"] == INITCHECK and what and row["bytes"] and space:
        return f"Uninitialized {space} memory read {size}"
    if row["tool"] == MEMCHECK and what and row["bytes"] and space:
        return f"Invalid {space} {what} {size}"
    if row["tool"] == SYNCCHECK:
        return f"Barrier error detected. {_sentence(row['message'])}"
    if row["tool"] in (RACECHECK, ORDER) or (row["severity"] == "warning" and row["kind"] != "leak"):
        return f"{row['severity'].capitalize()}: {row['message']}"
    return str(row["message"])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _says_more(row: dict[str, Any]) -> bool:
    """Whether the message has something that the other lines leave out: those of accesses with an address do not."""
    return row["tool"] != SYNCCHECK and row["address"] is None


def _race(row: dict[str, Any], site: dict[str, Any], other: dict[str, Any], root: str) -> tuple[str, list[str]]:
    """Two accesses, as racecheck's analysis shows them."""
    (first, *outer), (second, *outer_of_second) = (_places(each, row["kernel"], root) for each in (site, other))
    space = _SPACES.get(row["space"], row["space"])
    where = f"at {row['address']:#x}" if row["address"] is not None else ""
    allocation = f"in {_named(row)}" if row["allocation"] else ""
    lines = [
        *outer,
        f"and {other['what'].capitalize()} access {second} [{counted(row['count'], 'hazard')}]",
        *outer_of_second,
        " ".join(filter(None, (row["kind"], f"hazard on {space} memory", where, allocation))),
    ]
    if site["thread"] is not None and other["thread"] is not None:
        lines.append(f"between {_thread(site)} and {_thread(other)}")
    if row["launches"] > 1:
        lines.append(f"in {row['launches']:,} launches, first in launch {row['launch']:,}")
    return f"{row['severity'].capitalize()}: Race reported between {site['what'].capitalize()} access {first}", lines


def _places(site: dict[str, Any], kernel: str, root: str) -> list[str]:
    """Where a site is and where that is called from, as ``at k(int*) in k.cu:12``."""
    outermost = "" if site["callers"] else kernel
    function = site["function"] or outermost
    ptx_line = f"PTX line {site['ptx_line']}" if site["ptx_line"] and site["file"] else ""
    instruction = ", ".join(filter(None, (ptx_line, site["text"])))
    place = f"{_short(site['file'], root)}:{site['line']}" if site["file"] else _short(site["place"], root)
    lines = [f"at {function} in {place}" if function else f"at {place}"]
    if instruction:
        lines[0] += f" ({instruction})"
    for caller in site["callers"]:
        named = f"{caller['function']} in " if caller["function"] else ""
        lines.append(f"called from {named}{_short(caller['file'], root)}{':' + str(caller['line']) if caller['line'] else ''}")
    return lines


def _short(file: str, root: str) -> str:
    return os.path.relpath(file, root) if root and file.startswith(f"{root.rstrip('/')}/") else file


def _thread(site: dict[str, Any]) -> str:
    text = f"thread ({','.join(map(str, site['thread']))}) in block ({','.join(map(str, site['block'] or (0, 0, 0)))})"
    return text if site["warp"] is None else f"{text}, warp {site['warp']}, lane {site['lane']}"


def _address(row: dict[str, Any]) -> list[str]:
    """Where the address of a wrong access lies."""
    address, distance = row["address"], row["distance"]
    if address is None or row["site"] is None or not row["site"]["what"]:
        return []
    named = f"0x{address:x}" if row["space"] == "global" else f"offset {address:,}"
    lines = [f"Access at {named}" + ("" if row["tool"] == INITCHECK else f" {_WRONG.get(row['kind'], _OUTSIDE)}")]
    if row["allocation"] and distance is not None:
        side = f"{distance:,} bytes after" if distance > 0 else f"{-distance:,} bytes before" if distance < 0 else "inside"
        lines.append(f"and is {side} {'the nearest allocation, ' if distance else ''}{_named(row)}")
    return lines


def _named(row: dict[str, Any]) -> str:
    """The allocation, with a variable of a function as in the source."""
    return _LOCAL_NAME.sub(r'"\2"', row["allocation"])


_LOCAL_NAME = re.compile(r'"_ZZ\w*?E(\d+)([A-Za-z_]\w*?)(?:_\d+)?"')


def _how_often(row: dict[str, Any]) -> list[str]:
    """How many lanes and launches, where it is more than the one that is named."""
    lanes = f"{row['count']:,} times" if row["count"] > 1 else ""
    launches = f"in {row['launches']:,} launches" if row["launches"] > 1 else ""
    first = f"first in launch {row['launch']:,}" if row["launch"] > 1 or launches else ""
    return ["; ".join(filter(None, (" ".join(filter(None, (lanes, launches))), first)))] if lanes or launches or first else []


# -- Text.

def findings_text(document: dict[str, Any], style: Style = PLAIN, root: str = "") -> str:
    """All findings, each a block of lines behind the prefix of compute-sanitizer, then how many there are."""
    blocks = [f"{_PREFIX} {document['tool']}: {', '.join(document['checks'])} of {_subject(document)}"]
    blocks += blocks_of(document["findings"], style, root)
    totals = document["totals"]
    if totals["leaked_bytes"]:
        allocations = counted(totals["leaks"], "allocation")
        blocks.append(f"{_PREFIX} LEAK SUMMARY: {totals['leaked_bytes']:,} bytes leaked in {allocations}")
    warnings = f", {counted(totals['warnings'], 'warning')}" if totals["warnings"] else ""
    blocks += [f"{_PREFIX} note: {note}" for note in document["notes"]]
    blocks.append(f"{_PREFIX} ERROR SUMMARY: {counted(totals['errors'], 'error')}{warnings}")
    return "\n".join(blocks)


def blocks_of(rows: list[dict[str, Any]], style: Style = PLAIN, root: str = "") -> list[str]:
    """The lines of some findings."""
    lines: list[str] = []
    for row in rows:
        headline, more = describe(row, root)
        emphasis = style.warning if row["severity"] == "warning" else style.hot
        lines += [f"{_PREFIX} {emphasis(headline)}", *(f"{_PREFIX}     {line}" for line in more)]
        lines += [f"{_PREFIX}     -> {row['remedy']}", _PREFIX] if row["remedy"] else [_PREFIX]
    return lines


def _subject(document: dict[str, Any]) -> str:
    level = {"ptx": "PTX", "sass": "SASS"}[document["level"]] + (f" for {document['target']}" if document["target"] else "")
    if document["command"]:
        return f"{shlex.join(document['command'])} ({counted(document['launches'], 'launch')}, {level})"
    return f"{document['kernel']} in {document['source']} ({level})"


# -- SARIF.

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"
_TOOLS = {
    MEMCHECK: "Wrong accesses to memory, memory that is never freed, and calls of the CUDA runtime that fail.",
    RACECHECK: "Accesses to the same memory by different threads without a barrier or atomic between them.",
    INITCHECK: "Reads of memory that was never written.",
    SYNCCHECK: "Barriers, warp synchronization and mbarrier objects used in ways that CUDA does not define.",
    ORDER: "Results that depend on the order in which blocks and warps run.",
}


def findings_sarif(documents: Sequence[dict[str, Any]], root: str) -> dict[str, Any]:
    """The findings of one or more checks as a SARIF log with one run: GitHub refuses several runs of a tool in one category.

    Paths under the folder `root` are relative to it, as code scanning of a repository needs it.
    """
    rows = [row for document in documents for row in document["findings"]]
    rules = {f"{row['tool']}/{row['kind']}": row for row in rows}
    numbers = {name: number for number, name in enumerate(rules)}
    name, _, version = documents[0]["tool"].partition(" ")
    driver = {"name": name, "version": version, "rules": [_rule(identifier, row) for identifier, row in rules.items()]}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "exitCode": each["exit_code"]} for each in documents],
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {_ROOT: {"uri": Path(root).absolute().as_uri().rstrip("/") + "/"}},
        "results": [_result(row, numbers, document, root) for document in documents for row in document["findings"]],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(identifier: str, row: dict[str, Any]) -> dict[str, Any]:
    words = row["kind"].replace("-", " ")
    text = f"{words[:1].upper()}{words[1:]} ({row['tool']})"
    help_text = f"{_TOOLS[row['tool']]}" + (f" Remedy: {row['remedy']}." if row["remedy"] else "")
    return {
        "id": identifier, "name": "".join(word.capitalize() for word in re.split(r"\W+", f"{row['tool']}-{row['kind']}")),
        "shortDescription": {"text": text}, "fullDescription": {"text": _TOOLS[row["tool"]]}, "help": {"text": help_text},
        "defaultConfiguration": {"level": row["severity"]}, "properties": {"tags": ["cuda", row["tool"]]},
    }  # fmt: skip


def _result(row: dict[str, Any], numbers: dict[str, int], document: dict[str, Any], root: str) -> dict[str, Any]:
    headline, lines = describe(row, root)
    remedy = [f"Remedy: {row['remedy']}"] if row["remedy"] else []
    identifier = f"{row['tool']}/{row['kind']}"
    where = _location(row["site"], document, root)
    result: dict[str, Any] = {
        "ruleId": identifier, "ruleIndex": numbers[identifier], "level": row["severity"],
        "message": {"text": "\n".join([headline, *lines, *remedy])}, "locations": [where],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(row, where)},
        "properties": {"count": row["count"], "launches": row["launches"], "kernel": row["kernel"]},
    }  # fmt: skip
    if row["other"]:
        related = _location(row["other"], document, root)
        result["relatedLocations"] = [{"id": 1, **related, "message": {"text": f"the other {row['other']['what'] or 'place'}"}}]
    if row["site"] and any(caller["line"] for caller in row["site"]["callers"]):
        result["stacks"] = [_stack(row["site"], where, root)]
    return result


def _fingerprint(row: dict[str, Any], where: dict[str, Any]) -> str:
    """Stays the same from run to run: code scanning knows an alert by it."""
    artifact = where["physicalLocation"]["artifactLocation"]["uri"]
    other = row["other"]["text"] if row["other"] else ""
    parts = (row["tool"], row["kind"], row["kernel"], artifact, str(where["physicalLocation"]["region"]["startLine"]), other)
    return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}:1"


def _location(site: dict[str, Any] | None, document: dict[str, Any], root: str) -> dict[str, Any]:
    """The line of the source, or of the call of a function whose source is elsewhere; else of the PTX; where there is neither, the
    first line of the kernel's file or the program.
    """
    file, line = document["source"] or document["command"][0], 1
    if site and site["file"]:
        places = [(site["file"], site["line"]), *((caller["file"], caller["line"]) for caller in site["callers"])]
        file, line = next((place for place in places if place[1] and _is_inside(place[0], root)), places[0])
    elif site and site["ptx_line"]:
        file, line = site["place"].rpartition(":")[0] or file, site["ptx_line"]
    return _physical(file, line, root)


def _physical(file: str, line: int, root: str) -> dict[str, Any]:
    if _is_inside(file, root):
        artifact = {"uri": quote(Path(os.path.relpath(file, root)).as_posix()), "uriBaseId": _ROOT}
    else:
        artifact = {"uri": Path(file).absolute().as_uri()}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": max(line, 1)}}}


def _is_inside(file: str, root: str) -> bool:
    return not os.path.relpath(file, root).startswith("..")


def _stack(site: dict[str, Any], where: dict[str, Any], root: str) -> dict[str, Any]:
    frames = [{"location": {**where, "message": {"text": site["function"] or "here"}}}]
    for caller in (each for each in site["callers"] if each["line"]):
        place = _physical(caller["file"], caller["line"], root)
        frames.append({"location": {**place, "message": {"text": caller["function"] or "called from here"}}})
    return {"message": {"text": "calls, innermost first"}, "frames": frames}
