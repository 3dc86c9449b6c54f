"""Functions that all kernels share: matrix products, and matrices in memory. Compiled at first use and kept on disk like kernels.

A kernel calls them by name; the name says all that the function depends on.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.frame import HelperFrame, helper_type
from warpsight.emulator.lanes import I64, PTR
from warpsight.emulator.ops.matrix_memory import MatrixAccess, move_matrix
from warpsight.emulator.ops.matrix_product import multiply_inside, product_types
from warpsight.emulator.ops.matrix_shapes import Product

_PREFIXES = ("warpsight.mma.", "warpsight.wmma.")


def called(module: ir.Module) -> list[str]:
    """The functions of this library that a module calls."""
    return [name for name in module.globals if name.startswith(_PREFIXES)]


def build(name: str) -> ir.Module:
    """The module with the function `name`."""
    module = ir.Module(name=name)
    _, family, *fields = name.split(".")
    if family == "mma":
        product = Product.of_fields(fields)
        kind = helper_type([*product_types(product)[0], PTR], [])
        multiply_inside(HelperFrame(ir.Function(module, kind, name)), product)
    else:
        kind = helper_type([I64, I64, PTR], [])
        move_matrix(HelperFrame(ir.Function(module, kind, name)), MatrixAccess(*fields))
    return module
