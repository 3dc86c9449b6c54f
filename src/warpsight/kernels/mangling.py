"""Kernel names as people write them, from the mangled names that PTX has (Itanium C++ ABI, sections 5.1.3 to 5.1.8).

Covers what names kernels: namespaces, templates over types and integers, `static` kernels, ABI tags (Numba writes them). The
parameter list is left out. A name that is beyond this stays as it is.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "Dh": "half", "Ds": "char16_t", "Di": "char32_t", "Dn": "decltype(nullptr)",
}  # fmt: skip
_STD = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream",
    "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
_LITERAL_SUFFIX = {"unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}


class _NotCoveredError(Exception):
    pass


class _MangledName:
    """A cursor over one mangled name, with the ABI's list of substitutable components."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.components: list[str] = []

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def matched(self, pattern: str) -> str:
        match = re.compile(pattern).match(self.text, self.position)
        if match is None:
            raise _NotCoveredError
        self.position = match.end()
        return match.group()

    def remember(self, component: str) -> str:
        self.components.append(component)
        return component

    def source_name(self) -> str:
        self.take("L")  # internal linkage: a static kernel
        length = int(self.matched(r"[1-9]\d*"))
        name = self.text[self.position : self.position + length]
        if len(name) != length:
            raise _NotCoveredError
        self.position += length
        while self.take("B"):  # ABI tags are not part of the name that people write
            length = int(self.matched(r"[1-9]\d*"))
            self.position += length
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def substitution(self) -> str:
        for code, name in _STD.items():
            if self.take(code):
                return name
        index = self.matched(r"S[0-9A-Z]*_")[1:-1]
        position = int(index, 36) + 1 if index else 0
        if position >= len(self.components):
            raise _NotCoveredError
        return self.components[position]

    def template_arguments(self) -> str:
        arguments: list[str] = []
        while not self.take("E"):
            if self.take("J"):  # a parameter pack
                while not self.take("E"):
                    arguments.append(self.template_argument())
            else:
                arguments.append(self.template_argument())
        return f"<{', '.join(arguments)}>"

    def template_argument(self) -> str:
        if not self.take("L"):
            return self.type()
        kind = self.type()
        value = self.matched(r"n?\d+").replace("n", "-")
        if not self.take("E"):
            raise _NotCoveredError
        if kind == "bool":
            return "true" if value == "1" else "false"
        return value + _LITERAL_SUFFIX[kind] if kind in _LITERAL_SUFFIX else value if kind == "int" else f"({kind}){value}"

    def nested_name(self) -> str:
        self.matched(r"[rVK]*[RO]?")
        name = ""
        while not self.take("E"):
            if self.take("I"):
                name += self.template_arguments()
            elif self.text.startswith("S", self.position):
                name = self.substitution()
                continue
            else:
                name = f"{name}::{self.source_name()}" if name else self.source_name()
            # The complete name is not a component when it names a function; one entry too many at the end does no harm.
            self.remember(name)
        return name

    def name(self) -> str:
        if self.take("N"):
            return self.nested_name()
        if self.text.startswith("St", self.position):
            self.position += 2
            name = f"std::{self.source_name()}"
        elif self.text.startswith("S", self.position):
            name = self.substitution()
            if self.take("I"):
                return self.remember(name + self.template_arguments())
            return name
        else:
            name = self.source_name()
        if self.take("I"):
            self.remember(name)
            name += self.template_arguments()
        return name

    def type(self) -> str:
        for prefix, suffix in (("P", "*"), ("R", "&"), ("O", "&&"), ("K", " const"), ("V", " volatile")):
            if self.take(prefix):
                return self.remember(self.type() + suffix)
        for code in (self.text[self.position : self.position + 2], self.text[self.position : self.position + 1]):
            if code in _BUILTIN:
                self.position += len(code)
                return _BUILTIN[code]
        if self.text.startswith("S", self.position) and not self.text.startswith("St", self.position):
            name = self.substitution()
            return self.remember(name + self.template_arguments()) if self.take("I") else name
        nested = self.text.startswith("N", self.position)
        name = self.name()
        return name if nested else self.remember(name)


def display_name(mangled: str) -> str:
    """`_Z5scaleIfEvPT_` is `scale<float>`; a name that is not mangled, or in a way not covered, is returned unchanged."""
    if not mangled.startswith("_Z"):
        return mangled
    cursor = _MangledName(mangled)
    cursor.position = 2
    try:
        return cursor.name()
    except (_NotCoveredError, RecursionError):
        return mangled


def base_name(display: str) -> str:
    """`ns::scale` of `ns::scale<float>`: without the template arguments at the end."""
    if not display.endswith(">"):
        return display
    depth = 0
    for index in range(len(display) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(display[index], 0)
        if depth == 0:
            return display[:index]
    return display


def unscoped_name(display: str) -> str:
    """`scale<float>` of `ns::box<int>::scale<float>`: without namespaces and classes."""
    base = base_name(display)
    return base.rpartition("::")[2] + display[len(base) :]


def normalised(name: str) -> str:
    """A spelling in which equal names are equal: no spaces that do not matter, one word for each integer type, bare literals."""
    text = re.sub(r"\bunsigned(?!\s+(?:int|char|short|long|__int128))\b", "unsigned int", name.strip())
    text = re.sub(r"\b(short|long)\s+int\b", r"\1", text)
    text = re.sub(r"\bconst\s+([\w:]+)", r"\1 const", text)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    return re.sub(r"\s+(?=\W)|(?<=\W)\s+", "", text).removeprefix("::")
