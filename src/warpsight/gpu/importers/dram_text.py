"""DRAM timing and address mapping of GPGPU-Sim, and what a description says of rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.gpu.importers.option_files import Option

_ORDER = ("nbk", "CCD", "RRD", "RCD", "RAS", "RP", "RC", "CL", "WL", "CDLR", "WR", "nbkgrp", "CCDL", "RTPL")
_NEEDED = ("nbk", "RCD", "RP", "CL", "CDLR")
_MAPPING = re.compile(r"(?:dramid@(\d{1,2});)?([01DBRCSX.]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Timing:
    """In cycles of the DRAM's command clock: `values` by the names that the simulator gives them."""

    values: dict[str, int]

    @property
    def turnaround(self) -> float:
        """How long the data bus is idle when it turns, the mean of both ways.

        Read to write the simulator waits CL + BL/ratio + 2 - WL cycles between commands, which leaves the data bus idle for 2;
        write to read WL + BL/ratio + CDLR, which leaves it idle for CDLR + CL (gpu-sim.h, tRTW and tWTR).
        """
        return (2 + self.values["CDLR"] + self.values["CL"]) / 2


def parse_timing(option: Option) -> Timing:
    """`nbk=16:CCD=2:...`, or the numbers alone in the same order. Raises FormatError when it is neither, or lacks what is used."""
    words = [word for word in option.value.replace(" ", "").split(":") if word]
    named = [word.partition("=") for word in words]
    if all(not equals for _, equals, _ in named) and len(words) in (len(_ORDER), len(_ORDER) - 3):
        named = [(name, "=", word) for name, word in zip(_ORDER, words, strict=False)]
    values: dict[str, int] = {}
    for name, equals, number in named:
        if not equals or not re.fullmatch(r"\d{1,6}", number, re.ASCII):
            raise option.wrong(f'"{name}{equals}{number}" is not NAME=CYCLES', f"write {'=..:'.join(_ORDER)}=..")
        values[name] = int(number)
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise option.wrong(f"{', '.join(missing)} is missing", f"write {'=..:'.join(_ORDER)}=..")
    return Timing(values)


@dataclass(frozen=True)
class Mapping:
    """`row_bytes` of an open row of a channel; bits of the byte address, after the channel's are taken out: where the channel's
    stood and the lowest of the bank, by which the slices of a channel take turns. None: the mapping does not say.
    """

    row_bytes: int
    channel_bit: int | None
    bank_bit: int | None

    def interleave(self, slices_per_channel: int) -> int:
        """Consecutive bytes that one slice holds, 0: the mapping does not say."""
        bits = [self.channel_bit, self.bank_bit if slices_per_channel > 1 else self.channel_bit]
        known = [bit for bit in bits if bit is not None]
        return 1 << min(known) if known else 0


def parse_mapping(option: Option) -> Mapping:
    """`dramid@8;0000RRRR...CCCSSSSS`: columns (C) and bytes within one (S) make a row. Raises FormatError when it is none."""
    found = _MAPPING.fullmatch(option.value.replace(" ", ""))
    if found is None:
        raise option.wrong("is not an address mapping", "write dramid@BIT;BITS, the bits as 0, D, B, R, C or S")
    bits = found[2].replace(".", "").upper()
    channel = int(found[1]) if found[1] is not None else _lowest(bits, "D")
    return Mapping(1 << (bits.count("C") + bits.count("S")), channel, _lowest(bits, "B"))


def _lowest(bits: str, letter: str) -> int | None:
    """The lowest bit of a letter; the bits are written from the highest."""
    return len(bits) - 1 - bits.rindex(letter) if letter in bits else None
