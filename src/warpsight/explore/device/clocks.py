"""What NVML says of a GPU while it works; everything is absent where nvidia-ml-py is not installed or does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_REASONS = {  # bits of nvmlClocksEventReasons (NVML API reference)
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "temperature", 0x40: "hardware: temperature", 0x80: "hardware: power brake", 0x100: "display clocks",
}  # fmt: skip


def nvml_state(bus: str) -> dict[str, Any]:
    """Of the GPU at that PCI address: `driver`, `sm_clock_hz`, `memory_clock_hz`, `watts`, `celsius`, `ecc`, `held_by`.

    A key is absent where NVML does not tell it, and the document is empty where there is no NVML.
    """
    try:
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return {}
    found: dict[str, Any] = {}
    try:
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        asked: dict[str, Callable[[], Any]] = {
            "driver": lambda: _text(pynvml.nvmlSystemGetDriverVersion()),
            "sm_clock_hz": lambda: 1e6 * pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
            "memory_clock_hz": lambda: 1e6 * pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM),
            "watts": lambda: pynvml.nvmlDeviceGetPowerUsage(device) / 1000,
            "celsius": lambda: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU),
            "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(device)[0]),
            "held_by": lambda: _reasons(_asked_reasons(pynvml)(device)),
        }
        for name, ask in asked.items():
            try:
                found[name] = ask()
            except (pynvml.NVMLError, AttributeError):
                continue
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return found
    return found


def _asked_reasons(nvml: Any) -> Callable[[Any], int]:
    """NVML's function of that, under its name of today or the one before."""
    today = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    found: Callable[[Any], int] = today or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _reasons(bits: int) -> list[str]:
    """What holds the clock down."""
    return [name for bit, name in _REASONS.items() if bits & bit]
