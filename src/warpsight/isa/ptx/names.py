"""Names in a function body: scopes, registers and the symbols that must exist in the end.

A `{ }` in a body opens a scope (call sequences, inline assembly). A name that an inner scope declares again gets a distinct name,
`t$1`, so that afterwards all registers and variables of a function live in one flat table.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsight.isa.ptx.program import Variable

SINK = "_"
MAX_REGISTERS = 1_000_000

_PLAIN_SPECIAL = (
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "clock", "clock_hi", "clock64", "lanemask_eq", "lanemask_le",
    "lanemask_lt", "lanemask_ge", "lanemask_gt", "globaltimer", "globaltimer_lo", "globaltimer_hi", "dynamic_smem_size",
    "total_smem_size", "aggr_smem_size", "is_explicit_cluster", "cluster_ctarank", "cluster_nctarank",
    "reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap", "current_graph_exec",
)
_DIMENSIONED = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIAL_REGISTERS = frozenset(
    [f"%{name}" for name in _PLAIN_SPECIAL]
    + [f"%{name}.{axis}" for name in _DIMENSIONED for axis in "xyzw"]
    + [f"%pm{i}" for i in range(8)]
    + [f"%pm{i}_64" for i in range(8)]
    + [f"%envreg{i}" for i in range(32)]
    + [f"%reserved_smem_offset_{i}" for i in range(2)]
)


class Scope:
    """The declarations of one `{ }`: registers, register ranges (`%r<10>`), vector registers, symbols. Values are flat names."""

    def __init__(self, first_instruction: int, first_list: int, line: int) -> None:
        self.first_instruction = first_instruction
        self.first_list = first_list
        self.line = line
        self.registers: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.vectors: dict[str, tuple[str, ...]] = {}
        self.symbols: dict[str, str] = {}
        self.labels: dict[str, str] = {}


class Names:
    """The scopes of one function, innermost last, and its flat tables."""

    def __init__(self, symbols: Iterable[str] = ()) -> None:
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self._taken: set[str] = set(symbols)
        self.scopes = [Scope(0, 0, 0)]
        self.scopes[0].symbols.update((name, name) for name in self._taken)
        self.declared = 0

    def open(self, first_instruction: int, first_list: int, line: int) -> None:
        """Enter a `{` on a line, before an instruction and before a list of branch targets."""
        self.scopes.append(Scope(first_instruction, first_list, line))

    def close(self) -> Scope:
        """Leave at a `}`; gives the scope left."""
        return self.scopes.pop()

    def distinct(self, name: str) -> str:
        """`name`, or `name$1`, `name$2`, ... where an earlier declaration took it; the result is taken from now on."""
        flat, number = name, 0
        while flat in self._taken:
            number += 1
            flat = f"{name}${number}"
        self._taken.add(flat)
        return flat

    def declare_register(self, name: str, type: str) -> bool:
        """Declare one scalar register here; False when this scope has it already."""
        scope = self.scopes[-1]
        if name in scope.registers:
            return False
        flat = self.distinct(name)
        scope.registers[name] = flat
        self.registers[flat] = type
        self.declared += 1
        return True

    def declare_range(self, prefix: str, count: int, type: str) -> bool:
        """Declare prefix0 to prefix(count - 1), which enter the table when first used; False when this scope has the prefix."""
        if prefix in self.scopes[-1].ranges:
            return False
        self.scopes[-1].ranges[prefix] = (count, type)
        self.declared += count
        return True

    def declare_variable(self, name: str, variable: Variable) -> bool:
        """Declare a variable whose flat name is `variable.name`; False when this scope has it already."""
        scope = self.scopes[-1]
        if name in scope.symbols:
            return False
        scope.symbols[name] = variable.name
        self.variables[variable.name] = variable
        return True

    def register(self, name: str) -> str | None:
        """The flat name of the register that `name` means here, or None."""
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        for scope in reversed(self.scopes):
            flat = scope.registers.get(name)
            if flat is not None:
                return flat
            if digits and scope.ranges:
                flat = self._from_range(scope, stem, digits, name)
                if flat is not None:
                    return flat
            if name in scope.symbols:
                return None
        return None

    def _from_range(self, scope: Scope, stem: str, digits: str, name: str) -> str | None:
        # The prefix may itself end in digits (`%a1<4>` declares %a10 to %a13), so every cut of the digits is tried.
        for cut in range(len(digits)):
            count, type = scope.ranges.get(stem + digits[:cut], (0, ""))
            number = digits[cut:]
            if count and (number[0] != "0" or len(number) == 1) and len(number) <= 7 and int(number) < count:
                flat = scope.registers[name] = self.distinct(name)
                self.registers[flat] = type
                return flat
        return None

    def vector(self, name: str) -> tuple[str, ...] | None:
        """The flat element names when `name` is a vector register here."""
        for scope in reversed(self.scopes):
            if name in scope.vectors:
                return scope.vectors[name]
            if name in scope.registers:
                return None
        return None

    def symbol(self, name: str) -> str | None:
        """The flat name of the variable or parameter that `name` means here; None when the function declares none."""
        return next((scope.symbols[name] for scope in reversed(self.scopes) if name in scope.symbols), None)
