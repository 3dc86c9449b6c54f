"""Damage to PTX and to launches, made by what the text consists of: lines, tokens, numbers, types, operands, values."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from fuzzing.bundle import pack, unpack

INTEGERS = (
    "0", "1", "-1", "2", "3", "7", "15", "16", "31", "32", "33", "63", "64", "65", "127", "128", "255", "256", "1023", "1024",
    "65535", "65536", "0x7fffffff", "0x80000000", "0xffffffff", "4294967296", "-2147483649", "0x7fffffffffffffff",
    "0x8000000000000000", "0xffffffffffffffff", "18446744073709551616", "-9223372036854775809", "1" + "0" * 40, "9" * 5000,
    "017", "0b101", "08", "1U", "0f7fc00000", "0f", "0d7ff0000000000000", "0d0", "1.5", "1e999", "-0.0", "0x", "1.",
)  # fmt: skip
TYPES = (
    "pred", "b1", "b8", "b16", "b32", "b64", "b128", "u4", "s4", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16",
    "f16x2", "bf16", "bf16x2", "tf32", "e4m3", "e5m2", "f32", "f64", "texref", "v2", "v4", "v8",
)  # fmt: skip
OPCODES = (
    "abs", "activemask", "add", "addc", "alloca", "and", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra",
    "brev", "brx", "call", "clz", "cnot", "copysign", "cos", "cp", "cvt", "cvta", "div", "dp2a", "dp4a", "elect", "ex2",
    "exit", "fence", "fma", "fns", "griddepcontrol", "isspacep", "istypep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad",
    "mad24", "madc", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24",
    "nanosleep", "neg", "not", "or", "pmevent", "popc", "prefetch", "prmt", "rcp", "red", "redux", "rem", "ret", "rsqrt",
    "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "stackrestore",
    "stacksave", "stmatrix", "sub", "subc", "suld", "suq", "sured", "sust", "szext", "tanh", "testp", "tex", "tld4", "trap",
    "txq", "vabsdiff", "vadd", "vadd2", "vmad", "vote", "vset4", "wgmma", "wmma", "xor",
)  # fmt: skip
SPECIALS = (
    "%tid.x", "%tid", "%laneid", "%clock64", "%envreg3", "%nctaid.z", "%warpid", "%lanemask_lt", "%dynamic_smem_size", "%pm0",
    "%tid.w", "%nosuch", "WARP_SZ", "_", "%cluster_ctaid.x", "%gridid"
)  # fmt: skip
JUNK = (
    b"\x00", b"\xff\xfe", "\u2028".encode(), "\ufeff".encode(), "\u0661".encode(), "é%ŕ".encode(), b"\\", b'"', b"/*", b"*/",
    b"//", b"{" * 3, b"}" * 3, b"(" * 400, b"[" * 400, b"{" * 3000, b";;", b"\r", b"\t", b"$" * 300, b"a" * 3000
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.%$])-?\d\w*(?:\.\d+)?")
_MODIFIER = re.compile(r"\.[A-Za-z]\w*(?:::\w+)*")
_NAME = re.compile(r"[%$A-Za-z_][\w$]*(?:\.[xyzw]\b)?")
_OPCODE = re.compile(r"(^\s*(?:[{}]\s*)?(?:@!?%?[\w$]+\s+)?)([a-z]\w*)")

Edit = Callable[[random.Random, str, str], str]


def _replace_one(rng: random.Random, pattern: re.Pattern[str], line: str, make: Callable[[re.Match[str]], str]) -> str:
    found = list(pattern.finditer(line))
    if not found:
        return line
    at = rng.choice(found)
    return line[: at.start()] + make(at) + line[at.end() :]


def _operands(rng: random.Random, line: str, change: Callable[[list[str]], None]) -> str:
    """Change the list of an instruction's operands, split at commas outside of brackets."""
    head = re.match(r"(\s*(?:@!?%?\w+\s+)?[a-z][\w.:]*\s+)(.*?)(;.*)$", line)
    if head is None:
        return line
    parts = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{\[(])+", head[2])
    if parts:
        change(parts)
    return head[1] + ",".join(parts) + head[3]


def _delete_operand(rng: random.Random, line: str, other: str) -> str:
    def delete(parts: list[str]) -> None:
        parts.pop(rng.randrange(len(parts)))

    return _operands(rng, line, delete)


def _double_operand(rng: random.Random, line: str, other: str) -> str:
    return _operands(rng, line, lambda parts: parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts)))


def _swap_operands(rng: random.Random, line: str, other: str) -> str:
    return _operands(rng, line, rng.shuffle)


def _wrap_operand(rng: random.Random, line: str, other: str) -> str:
    shapes = ("{{{0}}}", "{{{0},{0}}}", "{{{0},{0},{0},{0}}}", "[{0}]", "[{0}+8]", "[{0},{0}]", "[{0},{{{0},{0}}}]", "!{0}",
              "({0})", "-{0}", "{0}|{0}", "{0}.x", "{{}}", "[]", "_", "{0}+4", "{{_,{0}}}")  # fmt: skip

    def wrap(parts: list[str]) -> None:
        at = rng.randrange(len(parts))
        parts[at] = " " + rng.choice(shapes).format(parts[at].strip())

    return _operands(rng, line, wrap)


def _add_modifier(rng: random.Random, line: str, other: str) -> str:
    words = _MODIFIER.findall(other) or [".b32"]
    return _replace_one(rng, _MODIFIER, line, lambda m: rng.choice((m[0] + rng.choice(words), rng.choice(words) + m[0])))


_NUMBERED_TYPE = re.compile(r"\.[a-z]+\d+\b")


def _power(rng: random.Random) -> str:
    return str(rng.choice((-1, 1)) * (1 << rng.randrange(66)) + rng.randint(-1, 1))


LINE_EDITS: tuple[Edit, ...] = (
    lambda rng, line, other: _replace_one(rng, _NUMBER, line, lambda m: rng.choice(INTEGERS)),
    lambda rng, line, other: _replace_one(rng, _NUMBER, line, lambda m: _power(rng)),
    lambda rng, line, other: _replace_one(rng, _MODIFIER, line, lambda m: "." + rng.choice(TYPES)),
    lambda rng, line, other: _replace_one(rng, _NUMBERED_TYPE, line, lambda m: "." + rng.choice(TYPES)),
    lambda rng, line, other: _replace_one(rng, _MODIFIER, line, lambda m: ""),
    lambda rng, line, other: _replace_one(rng, _MODIFIER, line, lambda m: rng.choice(_MODIFIER.findall(other) or ["."])),
    _add_modifier,
    lambda rng, line, other: _replace_one(rng, _NAME, line, lambda m: rng.choice(_NAME.findall(other) or ["%r1"])),
    lambda rng, line, other: _replace_one(rng, _NAME, line, lambda m: rng.choice((*SPECIALS, *INTEGERS[:24], "[%r1]"))),
    lambda rng, line, other: _OPCODE.sub(lambda m: m[1] + rng.choice(OPCODES), line, count=1),
    lambda rng, line, other: _OPCODE.sub(lambda m: f"@{rng.choice(('', '!'))}%p{rng.randrange(4)} {m[2]}", line, count=1),
    _delete_operand,
    _double_operand,
    _swap_operands,
    _wrap_operand,
    lambda rng, line, other: "",
    lambda rng, line, other: other,
    lambda rng, line, other: f"{line}\n{other}",
    lambda rng, line, other: line[: rng.randrange(len(line) + 1)] + other[rng.randrange(len(other) + 1) :],
)
_LAUNCHES = (
    '{"grid": [3, 2], "block": [16, 4, 2]}', '{"check": true}', '{"block": 33}', '{"block": 1024}',
    '{"grid": 64, "threads": 2}', '{"shared": 4096, "block": 128}', '{"stack": 1}', '{"heap": 0}', '{"shared": 1000000}',
    '{"grid": 2147483647}'
)  # fmt: skip


def mutate_ptx(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A PTX file with one to six changes; `other` is a second file that gives lines, tokens and whole stretches."""
    lines, donor = case.decode("latin-1").split("\n"), other.decode("latin-1").split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        at = rng.randrange(len(lines))
        pool = lines if rng.random() < 0.6 else donor
        near = rng.choice(pool)
        kind = rng.random()
        if kind < 0.84:
            lines[at] = rng.choice(LINE_EDITS)(rng, lines[at], near)
        elif kind < 0.88:
            lines.insert(rng.randrange(len(lines) + 1), lines.pop(at))
        elif kind < 0.94:
            start = rng.randrange(len(donor))
            lines[at : at + rng.choice((0, 0, 1, 4))] = donor[start : start + rng.randint(1, 8)]
        elif kind < 0.96:
            lines.insert(0, f"// launch: {rng.choice(_LAUNCHES)}")
        else:
            break
    data = "\n".join(lines).encode("latin-1", errors="replace")
    return _bytes(rng, data) if rng.random() < 0.04 else data


def _bytes(rng: random.Random, data: bytes) -> bytes:
    """Junk put in, a stretch cut out, or the end cut off."""
    at = rng.randrange(len(data) + 1)
    return rng.choice((data[:at], data[:at] + rng.choice(JUNK) + data[at:], data[:at] + data[at + rng.randrange(1, 9) :]))


_PIECES = (
    "i8", "u8", "i16", "u32", "i64", "u64", "f16", "f32", "f64", "bool", "hex", "[", "]", ":", "(", ")", ",", "<<", "**",
    "//", "*", "-", "+", "1Gi", "1Ki", "64Ki", "zeros", "ones", "full", "arange", "uniform", "normal", "randint",
    "permutation", "offsets", "seed=", "inf", "nan", "true", "null", "~", "@", ".npy", "kernels.ptx", "all_kinds",
    "case.yaml", "/", ".", "..", "0x10", "1e400", "1e-400", "x", "16x64", "&a", "*a", "<<: *a", "!!python/object", "!!binary",
    "? ", "- ", "|\n ", ">\n ", "'", '"', "{", "}", "%YAML 1.1\n", "---\n", "#", "\t",
)  # fmt: skip
_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 33, 1024, 1025, 65536, 2**31 - 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308,
    float("nan"), float("inf"), "", "x", "1", "5%", "0%", "1e5%", "(1,2)", "16x16", "f32[16]:uniform", "i32:7", "all_kinds",
    [], [1], [1, 1, 1], [1, 1, 1, 1], {"array": "f4", "shape": [16]}, {"array": "u1", "shape": []},
    {"array": "f4", "shape": [4, 4], "order": "F"}, {"array": ">f4", "shape": [2]}, {"array": "O", "shape": [2]},
    {"array": "c16", "shape": [0]}, {"array": "M8[s]", "shape": [3]}, {"array": "i4,f8", "shape": [3]},
    {"scalar": "f2", "value": 1}, {"scalar": "M8[s]", "value": "2020"}, {"scalar": "U4", "value": "abc"}, {"bytes": "00ff"},
    {}, {"texture": {"array": "f4", "shape": [8, 8]}, "filter": "linear"},
    {"surface": {"array": "u4", "shape": [6, 4, 4]}, "cube": True},
    {"texture": {"array": "u1", "shape": [4, 4, 4]}, "layered": True, "address": "wrap", "border": [1, 2]},
)  # fmt: skip
_TEXT_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")


def _mutate_text(rng: random.Random, text: str, other: str) -> str:
    tokens, donor = _TEXT_TOKEN.findall(text) or [""], _TEXT_TOKEN.findall(other) or [""]
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        at = rng.randrange(len(tokens))
        new = rng.choice((rng.choice(_PIECES), rng.choice(INTEGERS), rng.choice(donor)))
        kind = rng.randrange(5)
        if kind == 0:
            tokens[at] = new
        elif kind == 1:
            tokens.insert(at, new)
        elif kind == 2:
            tokens[at : at + rng.randint(1, 3)] = [""]
        elif kind == 3:
            start = rng.randrange(len(donor))
            tokens[at:at] = donor[start : start + rng.randint(1, 12)]
        else:
            tokens[at] = tokens[at] * rng.choice((2, 3, 500))
    return "".join(tokens)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON document."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [place for key, each in items for place in ((value, key), *_places(each))]


def _mutate_json(rng: random.Random, keys: dict[str, Any], donor: Any) -> None:
    places = _places(keys)
    if not places:
        return
    container, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0 and isinstance(container, list):
        container.insert(key, json.loads(json.dumps(rng.choice(_JSON_VALUES))))
    elif kind == 1:
        container.pop(key)
    elif kind == 2 and isinstance(container[key], str):
        container[key] = _mutate_text(rng, container[key], "f32[1<<4]:uniform(-1,1,seed=7)")
    elif kind == 3 and (known := _places(donor)):
        there, which = rng.choice(known)
        container[key] = json.loads(json.dumps(there[which]))
    elif kind == 4 and isinstance(container[key], int):
        container[key] = rng.choice((-1, 1)) * (1 << rng.randrange(70)) + rng.randint(-1, 1)
    else:
        container[key] = json.loads(json.dumps(rng.choice(_JSON_VALUES)))


def mutate_launch(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A launch, in YAML or JSON, with some values, keys or tokens changed."""
    text, donor = case.decode("latin-1"), other.decode("latin-1")
    if text.lstrip().startswith("{"):
        try:
            keys, others = json.loads(text), json.loads(donor) if donor.lstrip().startswith("{") else {}
            for _ in range(rng.choice((1, 1, 2, 3))):
                _mutate_json(rng, keys, others)
            return json.dumps(keys).encode()
        except (ValueError, RecursionError):
            pass
    data = _mutate_text(rng, text, donor).encode("latin-1", errors="replace")
    return _bytes(rng, data) if rng.random() < 0.1 else data


# -- Machine code: its listing, and its files.

_SASS_OPERANDS = (
    "RZ", "R0", "R1", "R2", "R3", "R7", "R254", "R255", "R256", "UR0", "UR4", "UR63", "URZ", "PT", "!PT", "P0", "P6", "P7", "P8",
    "UP0", "B0", "B15", "B16", "SB0", "SR_TID.X", "SR_LANEID", "SR_NOSUCH", "c[0x0][0x160]", "c[0x3][0x0]", "c[0x0][0xfffffff]",
    "c[0x1f][R2]", "cx[UR4][0x0]", "desc[UR4][R2.64]", "[R2.64+0x7fffffff]", "[R2.U32+UR4]", "[UR4]", "[]", "-R2", "~R2", "|R2|",
    "-|R2|.H1", "R2.64", "R2.reuse", "+INF", "-QNAN", "0x0", "-0x80000000", "0xffffffffffffffffff", "`(.L_x_0)", "`(.L_x_99)",
    "`(nowhere)", "0x30", "-0x10", "",
)  # fmt: skip
_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")
_SASS_TOKEN = re.compile(r"\b[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\b")
_SASS_MODIFIER = re.compile(r"\.[A-Z0-9_]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-f]+")


def _flip(rng: random.Random, match: re.Match[str]) -> str:
    return f"0x{int(match[0], 16) ^ 1 << rng.randrange(4 * (len(match[0]) - 2)):0{len(match[0]) - 2}x}"


def _sass_operands(rng: random.Random, line: str, other: str) -> str:
    """One operand of an instruction replaced, dropped, doubled or exchanged."""
    head = re.match(r"(\s*/\*\w+\*/\s+(?:@\S+ )?\S+ )([^;]*)(;.*)$", line)
    if head is None:
        return line
    parts = head[2].split(", ")
    at, kind = rng.randrange(len(parts)), rng.randrange(5)
    if kind == 0:
        parts.pop(at)
    elif kind == 1:
        parts.insert(at, rng.choice(parts))
    elif kind == 2:
        rng.shuffle(parts)
    else:
        parts[at] = rng.choice(_SASS_OPERANDS) if kind == 3 else rng.choice(_SASS_TOKEN.findall(other) or ["R1"])
    return head[1] + ", ".join(parts) + head[3]


_SASS_EDITS: tuple[Edit, ...] = (
    _sass_operands, _sass_operands, _sass_operands,
    lambda rng, line, other: _replace_one(rng, _SASS_TOKEN, line, lambda m: rng.choice(_SASS_TOKEN.findall(other) or ["NOP"])),
    lambda rng, line, other: _replace_one(rng, _SASS_MODIFIER, line, lambda m: rng.choice(_SASS_MODIFIER.findall(other) or [""])),
    lambda rng, line, other: _replace_one(rng, _SASS_MODIFIER, line, lambda m: ""),
    lambda rng, line, other: _replace_one(rng, _HEXADECIMAL, line, lambda m: _flip(rng, m)),
    lambda rng, line, other: _replace_one(rng, _HEXADECIMAL, line, lambda m: hex(rng.choice((0, 1 << rng.randrange(66))))),
    lambda rng, line, other: re.sub(r"(/\*\w+\*/\s+)(?:@\S+ )?", rf"\g<1>@{rng.choice(('P0', '!PT', 'UP1', 'P9'))} ", line),
    lambda rng, line, other: "",
    lambda rng, line, other: other,
    lambda rng, line, other: f"{line}\n{other}",
    lambda rng, line, other: line[: rng.randrange(len(line) + 1)],
)  # fmt: skip


def mutate_listing(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A listing of machine code with one to six changes, most of them in lines of instructions; its first line stays."""
    head, _, text = case.decode("latin-1").partition("\n")
    lines, donor = text.split("\n"), other.decode("latin-1").split("\n")
    code = [k for k, line in enumerate(lines) if _SASS_LINE.match(line)]
    pool = [line for line in donor if _SASS_LINE.match(line)] or donor
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        at = rng.choice(code) if code and rng.random() < 0.85 else rng.randrange(len(lines))
        near = rng.choice(pool) if rng.random() < 0.5 or not code else lines[rng.choice(code)]
        lines[at] = rng.choice(_SASS_EDITS)(rng, lines[at], near)
    return "\n".join((head, *lines)).encode("latin-1", errors="replace")


_EDGES = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 0x7FFF, 0xFFFF, 1 << 16, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF, 1 << 40, 1 << 63, -1)


def _places_in_elf(data: bytes) -> list[tuple[int, int]]:
    """Stretches of an ELF file or fat binary that decide most: headers, the table of sections, the beginnings of sections."""
    places = [(0, min(len(data), 128))]
    at = data.find(b"\x7fELF")
    if at >= 0 and len(data) >= at + 64:
        table, count = int.from_bytes(data[at + 40 : at + 48], "little") + at, int.from_bytes(data[at + 60 : at + 62], "little")
        places.append((at, at + 64))
        places.append((table, table + 64 * count))
        for k in range(min(count, 100)):
            row = data[table + 64 * k : table + 64 * k + 64]
            start, size = (int.from_bytes(row[first : first + 8], "little") for first in (24, 32))
            places.append((at + start, at + start + min(size, 4096)))
    return [(start, min(end, len(data))) for start, end in places if 0 <= start < min(end, len(data))]


def mutate_binary(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A binary file with some bytes or words changed, cut out, put in or doubled."""
    data = bytearray(case or b"\0")
    places = _places_in_elf(case) or [(0, len(data))]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6, 20))):
        start, end = rng.choice(places) if rng.random() < 0.8 else (0, len(data))
        at = rng.randrange(min(start, len(data) - 1), max(min(end, len(data)), min(start, len(data) - 1) + 1))
        kind, size = rng.random(), rng.choice((1, 2, 4, 4, 8))
        if kind < 0.35:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.6:
            value = rng.choice(_EDGES) if rng.random() < 0.7 else rng.randrange(len(data) + 2)
            at -= at % size
            data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif kind < 0.8:
            at -= at % size
            value = int.from_bytes(data[at : at + size], "little") + rng.choice((-8, -1, 1, 2, 8, 64))
            data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif kind < 0.88:
            there, length = rng.randrange(len(other) + 1), rng.randrange(1, 65)
            data[at : at + length] = other[there : there + length]
        elif kind < 0.94:
            there, length = rng.randrange(len(data)), rng.randrange(1, 257)
            data[at : at + length] = data[there : there + length]
        elif kind < 0.97:
            del data[at : at + rng.randrange(1, 65)]
        else:
            del data[at:]
        data = data or bytearray(b"\0")
    return bytes(data)


# -- Bundles of files: traces of all formats, and requests to the server with what it serves.

def mutate_trace(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A trace's files: one of them changed, lost, doubled or taken from another trace."""
    files, others = unpack(case), unpack(other)
    if not files or not others:
        return _bytes(rng, case)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(list(files))
        donor = others.get(name, rng.choice(list(others.values())))
        kind = rng.random()
        if kind < 0.02 and len(files) > 1:
            del files[name]
        elif kind < 0.04:
            files[name] = donor
        elif kind < 0.05:
            files[rng.choice((f"{name}.gz", f"x{name}", name.replace("1", "2"), f"{name}.xz"))] = files[name]
        elif b"\0" in files[name]:
            files[name] = mutate_binary(rng, files[name], donor)
        elif name.endswith(".json"):
            files[name] = mutate_launch(rng, files[name], donor)
        else:
            files[name] = _lines(rng, files[name], donor)
    return pack(files)


def _lines(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Text with tokens of one line changed, lines lost, doubled, exchanged or moved in from another file."""
    lines, donor = data.decode("latin-1").split("\n"), other.decode("latin-1").split("\n")
    at, near = rng.randrange(len(lines)), rng.choice(donor)
    kind = rng.random()
    if kind < 0.7:
        lines[at] = _mutate_text(rng, lines[at], near)
    elif kind < 0.78:
        del lines[at : at + rng.choice((1, 1, 2, 8))]
    elif kind < 0.86:
        lines[at:at] = [near]
    elif kind < 0.94:
        there = rng.randrange(len(lines))
        lines[at], lines[there] = lines[there], lines[at]
    else:
        lines = lines[:at]
    text = "\n".join(lines).encode("latin-1", errors="replace")
    return _bytes(rng, text) if rng.random() < 0.05 else text


_REQUEST_PIECES = (
    b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"get ", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/0.9", b" HTTP/2.0",
    b" HTTP/9.9", b" HTTP/1.1.1", b" HTTP/-1.1", b" HTTP/1.99999999999999999999", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Host: ",
    b"Host: localhost", b"Host:", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: keep-alive", b"Connection: close",
    b"Connection: Upgrade", b"Range: bytes=0-", b"//", b"/../", b"/%2e%2e/", b"/%00", b"%", b"%zz", b"?", b"#", b"/pages/",
    b"/api/", b"Authorization: Bearer token",
    b"/" * 2000, b"A" * 70000, b"x: y\r\n" * 200, b" ", b"\t", b"\0", b"\xff\xfe", "\u2028é".encode(),
    b" folded: 1", b"Host: evil.example",
)  # fmt: skip


def mutate_serve(rng: random.Random, case: bytes, other: bytes) -> bytes:
    """A request in bytes, and now and then the file that is served."""
    files, others = unpack(case), unpack(other)
    request, donor = files.get("request", b""), others.get("request", b"")
    if rng.random() < 0.4 and (names := [name for name in files if name != "request"]):
        name = rng.choice(names)
        files[name] = mutate_launch(rng, files[name], others.get(name, b"{}"))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, kind = rng.randrange(len(request) + 1), rng.random()
        piece = rng.choice(_REQUEST_PIECES)
        if kind < 0.4:
            request = request[:at] + piece + request[at:]
        elif kind < 0.6:
            request = request[:at] + request[at + rng.randrange(1, 12) :]
        elif kind < 0.75:
            request = request[:at] + piece + request[at + len(piece) :]
        elif kind < 0.85:
            there = rng.randrange(len(donor) + 1)
            request = request[:at] + donor[there : there + rng.randrange(1, 60)] + request[at:]
        elif kind < 0.95:
            request = request[:at] + bytes([rng.randrange(256)]) + request[at + 1 :]
        else:
            request = request[:at]
    return pack(files | {"request": request})


MUTATIONS = {
    "ptx": mutate_ptx, "sass": mutate_ptx, "launch": mutate_launch, "listing": mutate_listing, "cubin": mutate_binary,
    "trace": mutate_trace, "serve": mutate_serve,
}  # fmt: skip
