"""Damage to PTX and to launches, made by what the text consists of: lines, tokens, numbers, types, operands, values."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

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


MUTATIONS = {"ptx": mutate_ptx, "sass": mutate_ptx, "launch": mutate_launch}
