"""Code that is too long to repeat at each instruction: functions of the module, made once and called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from warpsight.emulator.lanes import Builder, Value, call_same, vector_suffix
from warpsight.emulator.recording import internal_function


def outlined(builder: Builder, name: str, result: Any, values: Sequence[Value], body: Callable[[Any, list[Value]], Value]) -> Value:
    """Call the function `name` of `values`; `body(builder, arguments)` emits it on first use. The name must say the types too."""
    function, fresh = internal_function(builder.module, name, result, [v.type for v in values])
    if fresh:
        inner = ir.IRBuilder(function.append_basic_block())
        inner.ret(body(inner, list(function.args)))
    return builder.call(function, list(values))


def call_library(builder: Builder, name: str, value: Value) -> Value:
    """`sin`, `cos`, `log2`, `exp2` or `tanh` of each lane: the C library's, within 1 unit in the last place of the type."""
    title = f"each_{name}_{vector_suffix(value.type)}"
    return outlined(builder, title, value.type, [value], lambda inner, arguments: call_same(inner, name, *arguments))
