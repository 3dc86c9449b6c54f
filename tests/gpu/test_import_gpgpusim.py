"""Does an imported configuration describe the machine that it configures? Held against published figures, and sums by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpgpusim_files import BASE, NETWORK, RTX2060, TRACE, configuration, line_of

from warpsight.base.errors import FormatError, SpecError, UsageError, WarpsightError
from warpsight.gpu.describe import Imported, made_yaml
from warpsight.gpu.importers.gpgpusim import import_configuration
from warpsight.gpu.importers.gpgpusim_sm import Choices
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec

pytestmark = pytest.mark.unit
Load = Callable[..., tuple[Imported, GpuSpec]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Writes files, imports them, and loads the description that comes of it."""

    def imported(*texts: str, choices: Choices | None = None) -> tuple[Imported, GpuSpec]:
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"file{number}.config")
            paths[-1].write_text(text)
        made = import_configuration(paths, name="imported", choices=choices)
        target = tmp_path / "imported.yaml"
        target.write_text(made_yaml(made))
        return made, load_gpu(target)

    return imported


def refused(load: Load, *texts: str, choices: Choices | None = None) -> str:
    with pytest.raises(WarpsightError) as caught:
        load(*texts, choices=choices)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_qv100_has_the_published_sms_cache_and_bandwidth(load: Load) -> None:
    made, gpu = load(configuration())
    assert (gpu.sm_count, gpu.core_clock_hz, gpu.sm.max_warps, gpu.sm.schedulers, gpu.sm.policy) == (80, 1.132e9, 64, 4, "lrr")
    assert (gpu.l2.size_bytes, gpu.l2.slices, gpu.l2.ways) == (6 * 2**20, 64, 24)
    assert gpu.dram.bandwidth_bytes_per_s == pytest.approx(870.4e9)
    assert (gpu.l1.size_bytes, gpu.l1.ways, gpu.l1.sector_bytes, gpu.l1.mshrs, gpu.l1.targets) == (32 * 1024, 64, 32, 512, 4 * 8)
    assert (gpu.l1.miss_queue, gpu.l1.allocation, gpu.l1.index, gpu.l1.latency_cycles) == (16, "on-miss", "modulo", 20)
    assert all(value.source for value in made.values.values() if not isinstance(value.content, str | bool))


def test_rtx2060_has_the_published_bandwidths_of_dram_and_network(load: Load) -> None:
    _, gpu = load(configuration(**{name[1:].replace(":", "__"): value for name, value in RTX2060.items()}))
    assert gpu.dram.bandwidth_bytes_per_s == pytest.approx(336.048e9)
    # 24 slices x 32 B x 1.365 GHz, which GCoM gives for this GPU as 1048.32 GB/s
    assert gpu.noc.bandwidth_bytes_per_s == pytest.approx(1048.32e9)
    assert (gpu.l2.size_bytes, gpu.l2.latency_cycles, gpu.dram.latency_cycles) == (3 * 2**20, 226, 96)
    assert (gpu.sm.shared_memory_bytes, gpu.l1.size_bytes) == (64 * 1024, 32 * 1024)


def test_every_source_names_file_line_and_option(load: Load) -> None:
    text = configuration()
    made, _ = load(text)
    at = f"file0.config:{line_of(text, '-gpgpu_cache:dl2')} -gpgpu_cache:dl2 {BASE['-gpgpu_cache:dl2']}"
    assert made.values["l2.ways"].source == at
    assert f"file0.config:{line_of(text, '-dram_latency')} -dram_latency 100" in made.values["dram.latency"].source
    assert "1132 MHz of the interconnect domain" in made.values["noc.bandwidth"].source


def test_dram_times_become_core_cycles(load: Load) -> None:
    _, gpu = load(configuration())
    # 12 cycles of 850 MHz are 15.98 of 1,132 MHz; the bus turns in (2 + 3 + 12) / 2 = 8.5 cycles, 11.3 of the core's
    assert (gpu.dram.activate_cycles, gpu.dram.precharge_cycles, gpu.dram.turnaround_cycles) == (16, 16, 11)
    # six C bits and five S bits
    assert (gpu.dram.row_bytes, gpu.dram.banks, gpu.dram.queue) == (2048, 16, 64)
    numbers = "16:1:3:12:28:12:40:12:2:3:10:4:2:3"
    assert load(configuration(gpgpu_dram_timing_opt=numbers))[1].dram == gpu.dram


def test_slices_of_a_channel_take_turns_at_the_lowest_bank_bit(load: Load) -> None:
    mapping = "dramid@8;00000000.0000RRRR.RRRRRRRR.RBBBCCCC.BCCSSSSS"
    assert load(configuration())[1].l2.slice_interleave_bytes == 256
    assert load(configuration(gpgpu_mem_addr_mapping=mapping))[1].l2.slice_interleave_bytes == 128


OF_MACHINE_CODE = {"imad": 4, "uniform": 4, "constant": 4}  # as fp32 or int
OF_PRODUCTS = ("tensor_fp32acc", "tensor_tf32", "tensor_int8")  # as tensor


def test_latencies_without_trace_config_are_those_of_add(load: Load) -> None:
    made, gpu = load(configuration())
    arithmetic = {"int": 4, "fp32": 4, "fp64": 8, "sfu": 100, "shared": 20, "fp16": 4, "tensor": 64}
    assert gpu.latency_cycles == arithmetic | OF_MACHINE_CODE | dict.fromkeys(OF_PRODUCTS, 64)
    assert gpu.initiation_cycles["fp64"] == 4
    assert any("MAX 13, MUL 4, MAD 5, DIV 145, SHFL 21" in note for note in made.notes)


def test_latencies_of_trace_config_are_of_the_unit_alone_and_get_the_stages_around_it(load: Load) -> None:
    made, gpu = load(configuration(), TRACE)
    arithmetic = {"int": 4, "fp32": 4, "fp64": 10, "sfu": 22, "shared": 20, "fp16": 4, "tensor": 10}
    assert gpu.latency_cycles == arithmetic | OF_MACHINE_CODE | dict.fromkeys(OF_PRODUCTS, 10)
    assert gpu.initiation_cycles["tensor"] == 4
    assert "2 of the pipeline around it" in made.values["latency.int"].source
    assert any("BRA" in note for note in made.notes)
    assert load(configuration(), TRACE, choices=Choices(stages=0))[1].latency_cycles["int"] == 2


def test_a_unit_that_schedulers_share_is_free_less_often(load: Load) -> None:
    _, gpu = load(configuration(gpgpu_num_sfu_units="1", gpgpu_num_int_units="0", gpgpu_num_sp_units="2"))
    # 8 cycles x 4 schedulers / 1 unit; integers go to 2 SP units where there are none of their own
    assert (gpu.initiation_cycles["sfu"], gpu.initiation_cycles["int"], gpu.initiation_cycles["fp32"]) == (32, 4, 4)


def test_more_units_than_schedulers_are_told_as_one_a_cycle(load: Load) -> None:
    made, gpu = load(configuration(gpgpu_num_sp_units="6", ptx_opcode_initiation_fp="1,2,1,1,4"))
    assert gpu.initiation_cycles["fp32"] == 1
    assert any("initiation.fp32 would be 0.667 cycles per scheduler; it is rounded up to 1" in note for note in made.notes)


@pytest.mark.parametrize(("kib", "l1_kib", "ways"), [(0, 128, 256), (64, 64, 128), (96, 32, 64)])
def test_carve_out_leaves_the_rest_to_the_l1(kib: int, l1_kib: int, ways: int, load: Load) -> None:
    _, gpu = load(configuration(), choices=Choices(carve_out=kib * 1024))
    assert (gpu.sm.shared_memory_bytes, gpu.l1.size_bytes, gpu.l1.ways) == (kib * 1024, l1_kib * 1024, ways)
    assert gpu.sm.max_shared_memory_per_block_bytes == min(kib, 64) * 1024


def test_carve_out_that_the_gpu_does_not_have_is_refused_with_those_that_it_has(load: Load) -> None:
    assert "`carve_out` takes 0 KiB, 8 KiB, 16 KiB, 32 KiB, 64 KiB, 96 KiB" in refused(
        load, configuration(), choices=Choices(carve_out=48 * 1024)
    )
    fixed = configuration(gpgpu_adaptive_cache_config="0")
    assert "is fixed here" in refused(load, fixed, choices=Choices(carve_out=0))
    assert load(fixed)[1].sm.shared_memory_bytes == 98304


def test_scheduler_that_descriptions_do_not_have_is_refused_until_one_is_chosen(load: Load) -> None:
    text = configuration(gpgpu_scheduler="two_level_active:6:0:1")
    assert f"file0.config:{line_of(text, '-gpgpu_scheduler')}: " in refused(load, text)
    made, gpu = load(text, choices=Choices(policy="gto"))
    assert gpu.sm.policy == "gto"
    assert any("two_level_active:6:0:1: no such scheduler; gto was chosen" in note for note in made.notes)


def test_network_file_gives_the_flit_and_must_have_a_node_for_every_port(load: Load) -> None:
    text = configuration(network_mode="1")
    made, gpu = load(text, NETWORK)
    # 64 slices x (72 - 8) B x 1.132 GHz
    assert gpu.noc.bandwidth_bytes_per_s == pytest.approx(64 * 64 * 1.132e9)
    assert gpu.noc.flit_bytes == 64
    assert "file1.config:5: a network of 143 nodes for 144" in refused(load, text, NETWORK.replace("144", "143"))
    made, gpu = load(text)
    assert gpu.noc.flit_bytes == 32
    assert any("no interconnect file was given" in note for note in made.notes)


def test_network_file_is_left_alone_where_the_simulator_reads_none(load: Load) -> None:
    # as shipped for RTX 2060: a file for 52 nodes, 54 clusters and slices, and -network_mode 2
    made, gpu = load(configuration(network_mode="2"), NETWORK.replace("k = ", "k = 9"))
    assert gpu == load(configuration(network_mode="2"))[1]
    assert any("not used" in note for note in made.notes)


def test_network_file_that_the_configuration_names_is_read_from_beside_it(tmp_path: Path) -> None:
    (tmp_path / "net.icnt").write_text(NETWORK)
    (tmp_path / "gpgpusim.config").write_text(configuration(network_mode="1", inter_config_file="net.icnt"))
    made = import_configuration([tmp_path / "gpgpusim.config"])
    assert made.values["noc.flit"].content == 64
    assert made.files == (str(tmp_path / "gpgpusim.config"), str(tmp_path / "net.icnt"))
    assert "flit_size" in made.values["noc.flit"].source


def test_ports_are_those_of_the_narrower_side(load: Load) -> None:
    made, gpu = load(configuration(gpgpu_n_clusters="14"))
    assert gpu.noc.bandwidth_bytes_per_s == pytest.approx(14 * 32 * 1.132e9)
    assert "14 ports, of the fewer of 14 clusters and 64 slices" in made.values["noc.bandwidth"].source


def test_what_cannot_be_carried_over_is_told_in_the_notes_and_in_the_file(load: Load) -> None:
    extra = "-gpgpu_gmem_skip_L1D 1\n-gpgpu_kernel_launch_latency 5000\n-gpgpu_ptx_sim_mode 0\n-no_such_option 7\n"
    made, _ = load(configuration() + extra)
    told = "\n".join(made.notes)
    assert "-gpgpu_gmem_skip_L1D 1: global loads bypass the L1 there" in told
    assert "-gpgpu_kernel_launch_latency 5000: a description has no launch latency" in told
    assert "-no_such_option 7: not known to this import" in told
    assert "1 options of the simulation only" in told
    assert "l2.index: IPOLY is not supported; xor is used" in told
    text = made_yaml(made)
    assert all(f"# - {note}" in text for note in made.notes)


@pytest.mark.parametrize(
    ("cache", "policy", "allocates", "index", "told"),
    [
        ("N:64:128:6,L:L:m:N:H,A:128:8,16:0,32", "write-through", False, "fermi", "local write-back, global write-through is not"),
        ("S:4:128:32,L:T:s:N:L,A:256:8,16:0,32", "write-through", False, "modulo", "streaming: lines are allocated on fill"),
        ("64:128:6,L:E:m:N:X,A:128:8,8", "write-through", False, "xor", "write-evict is not supported; write-through is used"),
    ],
)
def test_cache_strings_of_each_kind_are_decoded(
    cache: str, policy: str, allocates: bool, index: str, told: str, load: Load
) -> None:
    made, gpu = load(configuration(gpgpu_adaptive_cache_config="0", gpgpu_cache__dl1=cache))
    assert (gpu.l1.write_policy, gpu.l1.write_allocate, gpu.l1.index) == (policy, allocates, index)
    assert gpu.l1.sector_bytes == (32 if cache.startswith("S") else 128)
    assert any(told in note for note in made.notes)


def test_last_of_several_files_counts_and_both_places_are_told(load: Load) -> None:
    made, gpu = load(configuration(), "-gpgpu_n_clusters 40 # half\n")
    assert gpu.sm_count == 40
    assert any("-gpgpu_n_clusters is given at" in note and "the last counts" in note for note in made.notes)


def test_comments_quotes_over_lines_and_nested_files_are_read(tmp_path: Path) -> None:
    timing = BASE["-gpgpu_dram_timing_opt"].replace(":CL=", ":\n                CL=")
    (tmp_path / "inner.config").write_text(configuration(gpgpu_dram_timing_opt=f'"{timing}"'))
    (tmp_path / "outer.config").write_text("# all of it\n-config inner.config   # beside this file\n")
    made = import_configuration([tmp_path / "outer.config"])
    assert made.values["dram.activate"].content == 16
    assert made.values["dram.activate"].place.startswith(str(tmp_path / "inner.config"))
    (tmp_path / "outer.config").write_text("-config outer.config\n")
    with pytest.raises(FormatError, match="does a file read itself"):
        import_configuration([tmp_path / "outer.config"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpgpu_n_mem": None}, "no -gpgpu_n_mem"),
        ({"gpgpu_n_mem": "many"}, '-gpgpu_n_mem "many": is not a whole number'),
        ({"gpgpu_n_mem": "0"}, "is less than 1"),
        ({"gpgpu_clock_domains": "1132:1132"}, "is not four clocks"),
        ({"gpgpu_shader_core_pipeline": "2048:64"}, "warps of 32 threads"),
        ({"gpgpu_cache__dl1": "none"}, "a GPU without this cache cannot be described"),
        ({"gpgpu_cache__dl1": "S:4:128"}, "is not a cache string"),
        ({"gpgpu_cache__dl1": "S:4:64:64,L:T:m:L:L,A:512:8,16:0,32"}, "four sectors of 32 B"),
        ({"gpgpu_cache__dl1": "S:4:128:64,F:T:m:L:L,A:512:8,16:0,32"}, "no FIFO replacement"),
        ({"gpgpu_cache__dl1": "S:4:128:64,Q:T:m:L:L,A:512:8,16:0,32"}, '"Q" is not a known replacement'),
        ({"gpgpu_cache__dl2": "N:64:128:6,L:R:m:N:L,T:128:8,16:0,32"}, "a data cache is not read-only"),
        ({"gpgpu_dram_timing_opt": "nbk=16:RCD=12"}, "RP, CL, CDLR is missing"),
        ({"gpgpu_dram_timing_opt": "nbk=16:RCD=fast"}, '"RCD=fast" is not NAME=CYCLES'),
        ({"gpgpu_mem_addr_mapping": "bymagic"}, "is not an address mapping"),
        ({"network_mode": "7"}, "is neither 1 (interconnect file) nor 2"),
        ({"icnt_flit_size": "8"}, "no room behind a header"),
        ({"gpgpu_num_sfu_units": "0"}, "no unit executes these instructions"),
        ({"gpgpu_shmem_num_banks": "100000"}, "must be at most"),
    ],
)
def test_what_is_wrong_is_refused_where_it_stands(changes: dict[str, str | None], said: str, load: Load) -> None:
    text = configuration(**changes)
    message = refused(load, text)
    assert said in message
    [(name, value)] = changes.items()
    if value is not None:
        line = line_of(text, "-" + name.replace("__", ":"))
        assert f"file0.config:{line}: " in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-gpgpu_n_mem", "file0.config:1: -gpgpu_n_mem has no value: the file ends"),
        ("\n-gpgpu_n_mem -dram_latency 5", 'file0.config:2: -gpgpu_n_mem has no value: "-dram_latency" follows'),
        ("12 13", 'file0.config:1: "12" is not an option'),
        ('-a "b\nc', "file0.config:1: a quote is opened and never closed"),
        ("k = 5;\nnonsense here\n", 'file0.config:2: "nonsense here" is not a setting of a network'),
    ],
)
def test_files_that_are_none_are_refused_with_their_line(text: str, said: str, load: Load) -> None:
    assert said in refused(load, text)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        import_configuration([tmp_path / "absent.config"])
    with pytest.raises(UsageError, match="no configuration"):
        import_configuration([])
    (tmp_path / "binary.config").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="is not text"):
        import_configuration([tmp_path / "binary.config"])
    with pytest.raises(SpecError, match="is not a division"):
        (tmp_path / "good.config").write_text(configuration())
        import_configuration([tmp_path / "good.config"], choices=Choices(carve_out=5))
