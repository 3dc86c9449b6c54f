"""The keys that a description may contain: those of the table in `spec.py`, and the parameters that models declare.

A model declares parameters of its own as `Key`s named `MODEL.NAME` in its attribute `parameters`; the registry of models, plug-ins
included, is asked for them when a name is none of the table's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from warpsight.base.errors import SpecError, WarpsightError, suggestion
from warpsight.base.registry import Registry, registry
from warpsight.gpu.key import Key
from warpsight.gpu.spec import KEYS, SECTIONS

# What people call keys elsewhere: data sheets, deviceQuery, nvidia-smi, other simulators. Suggested for a key that is not known.
COMMON_NAMES = {
    "sm_count": ("sms", "sm", "num_sms", "n_sms", "nsm", "cores", "multiprocessors", "multiprocessor_count"),
    "core_clock": ("clock", "clock_rate", "freq", "frequency", "mhz", "ghz", "boost", "boost_clock", "sm_clock", "gpu_clock"),
    "compute_capability": ("cc", "arch", "sm_arch", "capability"),
    "dram.bandwidth": ("bandwidth", "bw", "dram", "dram_bandwidth", "dram_bw", "memory_bandwidth", "mem_bw", "hbm_bandwidth"),
    "dram.latency": ("dram_latency", "memory_latency", "mem_latency", "latency.dram"),
    "dram.channels": ("channels", "memory_channels", "memory_partitions"),
    "noc.bandwidth": ("l2_bandwidth", "l2_bw", "l2.bandwidth", "noc_bandwidth", "noc_bw"),
    "l2.size": ("l2", "l2_size", "l2_cache", "l2_cache_size", "llc", "llc_size", "llc.size"),
    "l2.latency": ("l2_latency", "latency.l2"),
    "l2.slices": ("slices", "l2_slices", "l2_banks"),
    "l1.size": ("l1", "l1_size", "l1_cache", "l1_cache_size"),
    "l1.latency": ("l1_latency", "latency.l1"),
    "l1.mshrs": ("mshrs", "mshr", "l1_mshrs", "num_mshrs"),
    "sm.shared_memory": ("smem", "shared", "shared_memory", "shared_size", "shared_mem_per_sm"),
    "sm.max_shared_memory_per_block": ("smem_per_block", "shared_mem_per_block", "max_shared_memory_per_block"),
    "sm.registers": ("registers", "regs", "register_file", "regs_per_sm", "registers_per_sm"),
    "sm.max_warps": ("warps", "max_warps", "warps_per_sm", "max_threads", "sm.max_threads", "threads_per_sm"),
    "sm.max_blocks": ("blocks", "max_blocks", "blocks_per_sm", "max_ctas"),
    "sm.max_threads_per_block": ("threads_per_block", "max_threads_per_block"),
    "sm.schedulers": ("schedulers", "warp_schedulers", "schedulers_per_sm", "subcores"),
    "sm.policy": ("policy", "scheduler", "warp_scheduler", "scheduling"),
}

TEXT_KEYS = ("schema", "name", "description", "like", "sources")

_MODELS: Registry[Any] = registry("model", "warpsight.models", "warpsight.models")


def parameters_of(model: str) -> dict[str, Key]:
    """The parameters that `model` declares, by full name; none without such a model. Raises UsageError as the registry does."""
    if not model or model in SECTIONS or model not in _MODELS:
        return {}
    declared: tuple[Key, ...] = getattr(_MODELS.get(model), "parameters", ())
    return {key.name: key for key in declared}


def find_key(name: str) -> Key | None:
    """The key of the table, or the parameter of a model, that is called `name`."""
    return KEYS[name] if name in KEYS else parameters_of(name.rpartition(".")[0]).get(name)


def key_of(name: str) -> Key:
    """As `find_key`, for a name that is known to be one."""
    key = find_key(name)
    assert key is not None, name
    return key


def is_section(name: str) -> bool:
    """Whether keys begin with `name.`: a part of the GPU, or a model with parameters."""
    return name in SECTIONS or bool(parameters_of(name))


def keys_within(section: str) -> list[str]:
    """The last parts of the names of the keys in `section`."""
    prefix = f"{section}."
    return [name.removeprefix(prefix) for name in (*KEYS, *parameters_of(section)) if section and name.startswith(prefix)]


def every_parameter() -> list[str]:
    """The names of all models' parameters; models that cannot be loaded have none."""
    parameters: list[str] = []
    for model in _MODELS.names():
        with suppress(WarpsightError):
            parameters += parameters_of(model)
    return parameters


class Problems(list[SpecError]):
    """The errors in a description, in the order in which a reader wants them: a load reports the first, a check all of them."""

    def add(self, what: str, *, place: str, remedy: str = "") -> None:
        """Records one error."""
        self.append(SpecError(what, place=place, remedy=remedy))

    def raise_first(self) -> None:
        """Raises the first error, if there is one."""
        if self:
            raise self[0]

    def unknown_key(self, name: str, place: str, *, dotted: bool = False) -> None:
        """Records a key that is not known, with the nearest one. `dotted`: suggest it with its section."""
        section, _, last = name.rpartition(".")
        within = keys_within(section)
        common = next((key for key, names in COMMON_NAMES.items() if name.lower().replace("-", "_") in names), None)
        hint = f'; did you mean "{common}"?' if common else suggestion(last, within)
        if hint and dotted and not common:
            hint = hint.replace('"', f'"{section}.', 1)
        near = hint or suggestion(name, (*KEYS, *SECTIONS, *every_parameter(), *(() if dotted else TEXT_KEYS)))
        listed = ", ".join(within or (*(key for key in KEYS if "." not in key), *SECTIONS))
        self.add(f"{name} is not a known key{near}", place=place, remedy=f"known here: {listed}")
