"""Does a kernel's `printf` make the text that the C library's makes?"""

from __future__ import annotations

import ctypes
import math
import random
import struct

import pytest

from warpsight.emulator.run.externals import MOST_PRINTF_ARGUMENTS, format_printf

pytestmark = pytest.mark.unit
LIBC = ctypes.CDLL(None)
FLOATS = [0.0, -0.0, 1.5, -2.75, 0.5, 2.5, 1e300, 5e-324, -3.1e-310, math.inf, -math.inf, math.nan, 0.1,
          123456789.125, 1e-5, 9.9999995]  # fmt: skip
INTEGERS = [0, 1, -1, 255, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 12345678901234]


class Words:
    """Arguments from a list; strings are numbered."""

    def __init__(self, *words: int, strings: tuple[bytes, ...] = ()) -> None:
        self.words, self.strings = list(words), strings

    def word(self, size: int) -> int:
        return self.words.pop(0) & ((1 << 8 * size) - 1)

    def text(self, address: int, limit: int | None) -> bytes:
        return self.strings[address][:limit]


def c_text(form: bytes, argument: object) -> bytes:
    buffer = ctypes.create_string_buffer(1000)
    LIBC.snprintf(buffer, 1000, form, argument)
    return buffer.value


def bits_of(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def random_field(rng: random.Random) -> str:
    flags = "".join(rng.sample("-+ #0", rng.randint(0, 3)))
    return flags + rng.choice(["", "5", "12", "20"]) + rng.choice(["", ".", ".0", ".3", ".8", ".15"])


@pytest.mark.parametrize("kind", "eEfFgGaA")
def test_floats_with_any_flags_width_and_precision_equal_the_c_library(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(400):
        form = f"<%{random_field(rng)}{kind}>".encode()
        for value in (rng.choice(FLOATS), rng.uniform(-1e3, 1e3), struct.unpack("<d", rng.randbytes(8))[0]):
            assert format_printf(form, Words(bits_of(value))) == (c_text(form, ctypes.c_double(value)), 1), (form, value)


@pytest.mark.parametrize("kind", "diouxX")
def test_integers_of_every_length_equal_the_c_library(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(400):
        form = f"<%{random_field(rng)}{rng.choice(['', 'hh', 'h', 'l', 'll', 'j', 'z', 't'])}{kind}>".encode()
        for value in (rng.choice(INTEGERS), rng.randint(-(2**40), 2**40)):
            assert format_printf(form, Words(value)) == (c_text(form, ctypes.c_int64(value)), 1), (form, value)


@pytest.mark.parametrize("form", [b"%p", b"%20p", b"%-20p|", b"%c", b"%5c", b"%-5c|"])
@pytest.mark.parametrize("value", [0x41, 0x7F12345678])
def test_pointers_and_characters_equal_the_c_library(form: bytes, value: int) -> None:
    assert format_printf(form, Words(value))[0] == c_text(form, ctypes.c_int64(value))


def test_null_pointer_is_shown_as_the_c_library_shows_it() -> None:
    assert format_printf(b"%p %8p", Words(0, 0))[0] == b"(nil)    (nil)"


@pytest.mark.parametrize("form", [b"%s", b"%3s", b"%12s", b"%-12s|", b"%.2s", b"%8.3s", b"%.0s"])
def test_strings_are_cut_and_padded_as_by_the_c_library(form: bytes) -> None:
    assert format_printf(form, Words(0, strings=(b"strings",)))[0] == c_text(form, b"strings")


def test_stars_take_arguments_and_a_negative_width_goes_left() -> None:
    assert format_printf(b"%*d|%*d|%.*f|", Words(6, 42, -6, 42, 2, bits_of(math.pi))) == (b"    42|42    |3.14|", 6)
    assert format_printf(b"%.*d", Words(-3, 7)) == (b"7", 2)  # a negative precision is none


@pytest.mark.parametrize("form", [b"100%", b"%y %", b"%%", b"a%%b", b"%99999999999d", b""])
def test_text_without_a_conversion_takes_no_argument(form: bytes) -> None:
    assert format_printf(form, Words()) == (form.replace(b"%%", b"%"), 0)


def test_conversions_past_the_thirty_second_argument_stay_as_they_are() -> None:
    text, taken = format_printf(b"%d," * 34, Words(*range(34)))
    assert taken == MOST_PRINTF_ARGUMENTS == 32
    assert text == b"".join(b"%d," % k for k in range(32)) + b"%d,%d,"


def test_count_written_through_a_pointer_is_skipped() -> None:
    assert format_printf(b"a%nb%d", Words(1 << 40, 5)) == (b"ab5", 2)
