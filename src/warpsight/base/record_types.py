"""The Numba types of records and tables (module `records`): a reference is a pointer, a field a load or a store."""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global
from numba.extending import lower_builtin, lower_getattr_generic, lower_setattr_generic, register_model

from warpsight.base.records import CACHE_LINE_BYTES, Constants, Record, dtype_of, fields_of, row_type

_BYTE = ir.IntType(8)


class RecordType(types.Type):
    """A reference to a record."""

    def __init__(self, record: type) -> None:
        self.fields = fields_of(record)
        self.dtype = dtype_of(record)
        self.is_constant = issubclass(record, Constants)
        super().__init__(f"{record.__module__}.{record.__qualname__}")


class TableType(types.Type):
    """The address of rows of a record or of numbers."""

    def __init__(self, row: Any) -> None:
        self.row, self.dtype = row, dtype_of(row)
        super().__init__(f"Table({_type_name(row)})")


def _type_name(row: Any) -> str:
    return f"{row.__module__}.{row.__qualname__}" if _is_record(row) else str(dtype_of(row))


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Record)


@register_model(RecordType)
@register_model(TableType)
class _PointerModel(PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _BYTE.as_pointer())


@cache
def type_of(annotation: Any) -> Any:
    """The Numba type of a field when read."""
    if _is_record(annotation):
        return RecordType(annotation)
    row = row_type(annotation)
    if row is not None:
        return TableType(row)
    dtype = dtype_of(annotation)
    return types.int64 if dtype.kind in "iu" else numba.from_dtype(dtype)


def _load(context: Any, builder: Any, annotation: Any, place: Any, is_constant: bool = False) -> Any:
    """The value at the byte address `place`; of a record, the address itself. One that is constant is not loaded again after a
    store elsewhere.
    """
    if _is_record(annotation):
        return place
    result = type_of(annotation)
    stored = result if row_type(annotation) is not None else numba.from_dtype(dtype_of(annotation))
    value = context.unpack_value(builder, stored, builder.bitcast(place, context.get_data_type(stored).as_pointer()))
    if is_constant or row_type(annotation) is not None:
        _loaded(value).set_metadata("invariant.load", builder.module.add_metadata([]))
    return context.cast(builder, value, stored, result)


def _loaded(value: Any) -> Any:
    """The load that gave a value: narrow ones are extended or truncated after it."""
    return value if value.opname == "load" else _loaded(value.operands[0])


def _store(context: Any, builder: Any, annotation: Any, place: Any, value: Any) -> None:
    """Store `value`, of type `type_of(annotation)`; a record is copied."""
    if _is_record(annotation):
        cgutils.raw_memcpy(builder, place, value, ir.Constant(ir.IntType(64), dtype_of(annotation).itemsize), 1)
        return
    stored = numba.from_dtype(dtype_of(annotation))
    value = context.cast(builder, value, type_of(annotation), stored)
    context.pack_value(builder, stored, value, builder.bitcast(place, context.get_data_type(stored).as_pointer()))


@infer_getattr
class _Fields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        return type_of(record.fields[name]) if name in record.fields else None


def _field(builder: Any, record: RecordType, reference: Any, name: str) -> tuple[Any, Any]:
    offset = dict(record.dtype.fields or {})[name][1]
    return record.fields[name], builder.gep(reference, [ir.Constant(ir.IntType(64), offset)], inbounds=True)


@lower_getattr_generic(RecordType)
def _get_field(context: Any, builder: Any, record: RecordType, reference: Any, name: str) -> Any:
    annotation, place = _field(builder, record, reference, name)
    return _load(context, builder, annotation, place, record.is_constant)


@lower_setattr_generic(RecordType)
def _set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    annotation, place = _field(builder, signature.args[0], arguments[0], name)
    value = context.cast(builder, arguments[1], signature.args[1], type_of(annotation))
    _store(context, builder, annotation, place, value)


@infer_global(operator.getitem)
class _GetRow(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        table, index = arguments
        if isinstance(table, TableType) and isinstance(index, types.Integer):
            return numba.core.typing.signature(type_of(table.row), table, types.int64)
        return None


@infer_global(operator.setitem)
class _SetRow(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        table, index, _value = arguments
        if isinstance(table, TableType) and isinstance(index, types.Integer):
            return numba.core.typing.signature(types.none, table, types.int64, type_of(table.row))
        return None


def _row(builder: Any, table: TableType, address: Any, index: Any) -> Any:
    size = ir.Constant(ir.IntType(64), table.dtype.itemsize)
    return builder.gep(address, [builder.mul(index, size, flags=("nsw",))], inbounds=True)


@lower_builtin(operator.getitem, TableType, types.int64)
def _get_row(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    table = signature.args[0]
    return _load(context, builder, table.row, _row(builder, table, *arguments))


@lower_builtin(operator.setitem, TableType, types.int64, types.Any)
def _set_row(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    table = signature.args[0]
    _store(context, builder, table.row, _row(builder, table, *arguments[:2]), arguments[2])
    return context.get_dummy_value()


def asked_for(table: Any, row: Any) -> Any:
    """Signature and code of what asks the host's caches for all of a row, which never waits and never faults."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _row(builder, table, *arguments)
        ask = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE.as_pointer()], ir.FunctionType(ir.VoidType(), [
            _BYTE.as_pointer(), *[ir.IntType(32)] * 3
        ]))
        how = [ir.Constant(ir.IntType(32), number) for number in (0, 3, 1)]  # to read, often, data
        for first in range(0, table.dtype.itemsize, CACHE_LINE_BYTES):
            builder.call(ask, [builder.gep(place, [ir.Constant(ir.IntType(64), first)]), *how])
        return context.get_dummy_value()

    return types.none(table, types.int64), generate


def equal_rows(table: Any, row: Any, value: Any, count: int) -> Any:
    """Signature and code of what compares `count` rows of a table of 32-bit numbers, a power of two, from `row` on with `value`: a
    mask with a bit for each.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        vector = ir.VectorType(number, count)
        place = builder.bitcast(_row(builder, table, *arguments[:2]), vector.as_pointer())
        wanted = builder.insert_element(ir.Constant(vector, ir.Undefined), builder.trunc(arguments[2], number), number(0))
        every = builder.shuffle_vector(wanted, ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0] * count))
        found = builder.icmp_signed("==", builder.load(place, align=4), every)
        return builder.zext(builder.bitcast(found, ir.IntType(count)), ir.IntType(64))

    return types.int64(table, types.int64, types.int64), generate


def register(python_type: type, attribute: str) -> None:
    """Let Numba take an object of `python_type` for the value of its `attribute`, a Numba type or what has one."""

    def type_of_value(value: Any, _: Any) -> Any:
        stand_in = getattr(value, attribute)
        return stand_in if isinstance(stand_in, types.Type) else numba.typeof(stand_in)

    numba.extending.typeof_impl.register(python_type)(type_of_value)


def record_at(address: Any, record: Any) -> Any:
    """Signature and code of what gives the address held by a one-entry int64 array as a reference to a `record`."""
    result = type_of(record)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.inttoptr(builder.load(data), _BYTE.as_pointer())

    return result(address, record), generate
