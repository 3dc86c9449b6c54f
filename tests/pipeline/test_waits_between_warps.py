"""How long do warps wait on mbarriers for bulk copies and for each other, and for products of warp groups? Cycles by hand.

A block alone on an H100 PCIe, all misses: L2 and DRAM take 258 + 392 cycles. Model and simulator, in this order.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.traces.events import EventReader
from warpsight.traces.schema import BARRIER_RECORD, PRODUCTS, READS, WRITES, KernelTrace, StaticInstruction

pytestmark = pytest.mark.unit

MISS, BYTES, ROUNDS, MORE = 258 + 392, 2048, 8, 24
PORT = BYTES // 64  # cycles that the data takes through the SM's port
LOOP = 10  # of two dependent instructions, compared and branched: cycles of a round of the consumer's work
GPU = {"gpu": "h100-pcie", "overrides": ["dispatch.grid=0 cycles", "l2.far_latency=0 cycles"], "caches_before": "cold"}

RING = r"""
template <int STAGES> __device__ void ring(const float4* x, float* y, int rounds, int work) {
    __shared__ alignas(128) float4 buffer[STAGES][128];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    auto wait = [&](void* object, int parity) {
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     :: "r"(at(object)), "r"(parity));
    };
    if (threadIdx.x < STAGES) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&full[threadIdx.x])));
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&empty[threadIdx.x])));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        #pragma unroll 1
        for (int k = 0; k < rounds; ++k) {
            const int s = k % STAGES;
            wait(&empty[s], (k / STAGES & 1) ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 2048;" :: "r"(at(&full[s])));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];"
                         :: "r"(at(buffer[s])), "l"(x + 128 * k), "r"(at(&full[s])) : "memory");
        }
    } else if (threadIdx.x == 32) {
        float sum = 0;
        #pragma unroll 1
        for (int k = 0; k < rounds; ++k) {
            const int s = k % STAGES;
            wait(&full[s], k / STAGES & 1);
            #pragma unroll 1
            for (int j = 0; j < work; ++j) sum = sum * 0.5f + 1.0f;
            asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&empty[s])) : "memory");
        }
        *y = sum;
    }
}
extern "C" __global__ void ring1(const float4* x, float* y, int n, int work) { ring<1>(x, y, n, work); }
extern "C" __global__ void ring2(const float4* x, float* y, int n, int work) { ring<2>(x, y, n, work); }
extern "C" __global__ void ring4(const float4* x, float* y, int n, int work) { ring<4>(x, y, n, work); }
"""


@functools.cache
def source(folder: Path) -> Path:
    path = folder / "ring.cu"
    path.write_text(RING)
    return path


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source(tmp_path_factory.mktemp("rings"))


def ring(path: Path, stages: int, work: int, level: str = "ptx", rounds: int = ROUNDS) -> KernelTrace:
    """A warp copies, another computes with what has come; each waits for the other."""
    arguments = [np.zeros(MORE * BYTES // 4, np.float32), np.zeros(1, np.float32), rounds, work]
    return warpsight.trace(path, f"ring{stages}", grid=1, block=64, args=arguments, gpu="h100-pcie", level=level, arch="sm_90")


def cycles(trace: KernelTrace) -> np.ndarray:
    return np.array([answer(trace, **GPU).cycles for answer in (warpsight.predict, warpsight.simulate)])


def near(found: np.ndarray, expected: np.ndarray | float, within: float) -> bool:
    return bool((np.abs(found / expected - 1) < within).all())


def a_round(path: Path, stages: int, work: int, level: str = "ptx") -> np.ndarray:
    """Cycles of a round, from two launches."""
    few, many = (cycles(ring(path, stages, work, level, rounds)) for rounds in (ROUNDS, MORE))
    return np.asarray((many - few) / (MORE - ROUNDS))


def test_copies_ahead_share_a_latency_until_the_consumer_is_the_slower_side(rings: Path) -> None:
    """With one buffer a round is a latency, the data's way through the port, and two waits of an mbarrier with little around them.

    With S buffers S rounds share that. Work that takes longer than the copies of four buffers is all that remains.
    """
    quick = {stages: a_round(rings, stages, 4) for stages in (1, 2, 4)}
    assert (quick[1] > MISS + PORT).all() and (quick[1] < MISS + PORT + 160).all()
    assert near(quick[2], quick[1] / 2, 0.06) and near(quick[4], quick[1] / 4, 0.06)
    assert near(a_round(rings, 4, 200), 200 * LOOP, 0.06)


def test_machine_code_waits_in_the_same_way(rings: Path) -> None:
    four = a_round(rings, 4, 4, "sass")
    assert (four > (MISS + PORT) / 4).all() and (four < (MISS + PORT + 260) / 4).all() and near(four[:1], four[1], 0.05)


def test_a_wait_of_a_consumer_is_for_the_copy_of_the_producer(rings: Path) -> None:
    trace = ring(rings, 1, 4)
    (copy,) = [i for i in trace.instructions if i.is_bulk]
    answer = warpsight.predict(trace, **GPU)
    busy = {name: part for name, part in answer.cpi_stack.items() if name not in ("idle", "launch")}
    assert busy["mem_data"] > 0.7 * sum(busy.values())
    profile = warpsight.profile(trace, gpu="h100-pcie")
    waits = profile.pc[profile.stall_cycles > MISS / 2]
    assert len(waits) == ROUNDS and (waits == copy.pc).all()


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_events_say_what_instructions_do_at_an_mbarrier(rings: Path, level: str) -> None:
    """Of four buffers, each filled twice: a producer tests for the phases before the first, and a consumer for the first ones."""
    trace = ring(rings, 4, 4, level)
    (chunk,) = trace.chunks
    events = EventReader(trace).read(chunk)
    records: dict[tuple[int, str], list[tuple[int, ...]]] = {}
    for warp, pc, byte in zip(events.warp.tolist(), events.pc.tolist(), events.byte.tolist(), strict=True):
        instruction = trace.instructions[pc]
        if instruction.at_barrier:
            end = byte + instruction.event_bytes
            (record,) = np.frombuffer(chunk.events[end - BARRIER_RECORD.itemsize : end].tobytes(), BARRIER_RECORD).tolist()
            records.setdefault((warp, _does(instruction)), []).append(record)
    full = [record[0] for record in records[0, "copies"][:4]]
    empty = [record[0] for record in records[1, "arrives"][:4]]
    assert len({*full, *empty}) == 8
    assert [record[:4] for record in records[0, "arrives"]] == [(full[k % 4], 1, BYTES, 1) for k in range(ROUNDS)]
    assert [record[:3] for record in records[0, "copies"]] == [(full[k % 4], 0, -BYTES) for k in range(ROUNDS)]
    assert [record[:2] for record in records[0, "tests"]] == [(empty[k % 4], k // 4 % 2 ^ 1) for k in range(ROUNDS)]
    assert [record[:2] for record in records[1, "tests"]] == [(full[k % 4], k // 4 % 2) for k in range(ROUNDS)]


def _does(instruction: StaticInstruction) -> str:
    return "tests" if instruction.polls_mbarrier else "copies" if instruction.is_bulk else "arrives"


# -- Products of a warp group.

COLUMNS, EACH = 64, 32  # m64n64k16: 64 x 64 x 16 multiply-adds by four tensor cores of 512 a cycle
LATENCY = 24 + EACH - 4  # a product of 8 columns takes 24, and occupies its tensor core for 4

PRODUCTS_OF_A_GROUP = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 rounds)
{{
    .reg .b64 %a, %q; .reg .b32 %d<32>, %r, %i; .reg .pred %p;
    .shared .align 1024 .b8 memory[16384];
    mov.u32 %r, memory; shr.u32 %r, %r, 4; cvt.u64.u32 %a, %r; or.b64 %a, %a, 0x1000080000;
    ld.param.u32 %i, [rounds];
    {zeros}
again: .pragma "nounroll";
    wgmma.fence.sync.aligned;
    {products}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {left};
    sub.u32 %i, %i, 1; setp.ne.u32 %p, %i, 0; @%p bra again;
    wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %q, [out]; st.global.b32 [%q], %d0;
    ret;
}}"""


def a_product(each: int, left: int, level: str) -> np.ndarray:
    """Cycles of a product in a loop of groups of `each`, all into the same sums, where `left` groups may be under way."""
    sums = ", ".join(f"%d{k}" for k in range(COLUMNS // 2))
    product = f"wgmma.mma_async.sync.aligned.m64n{COLUMNS}k16.f32.f16.f16 {{{sums}}}, %a, %a, 1, 1, 1, 0, 0;"
    zeros = " ".join(f"mov.u32 %d{k}, 0;" for k in range(COLUMNS // 2))
    text = PRODUCTS_OF_A_GROUP.format(zeros=zeros, products="\n".join([product] * each), left=left)
    few, many = (
        cycles(warpsight.trace(text, "k", grid=1, block=128, args=[np.zeros(1, np.float32), n], gpu="h100-pcie", level=level))
        for n in (4, 12)
    )
    return np.asarray((many - few) / 8 / each)


def test_products_of_a_warp_group_follow_each_other_in_the_tensor_cores() -> None:
    """Even though each adds to the sums of the one before. A wait for each is for its latency, and the loop around it."""
    assert near(a_product(4, 1, "ptx"), EACH, 0.001)  # the dense peak
    alone = a_product(1, 0, "sass")
    assert (alone > LATENCY).all() and (alone < LATENCY + 30).all()


def test_static_rows_tell_the_kinds_of_groups_apart() -> None:
    def row(opcode: str, op_class: str = "control", **fields: int | str) -> StaticInstruction:
        return StaticInstruction(0, opcode, op_class, (), (), *("global", "store") if "count_bytes" in fields else ("", ""), 4,
                                 "", 0, 0, **fields)  # type: ignore[arg-type]  # fmt: skip

    store = row("UTMASTG.2D", "memory", count_bytes=3)
    assert store.joins == (WRITES, READS) == row("UTMACMDFLUSH").ends == row("cp.async.bulk.commit_group").ends
    product = row("HGMMA.64x64x16.F32", "tensor", ends_products=1)
    assert product.joins == (PRODUCTS,) == product.ends and row("HMMA.16816.F32", "tensor").joins == ()


# -- Products with tensor memory: of m128n256k16, 128 cycles each at the B200's dense peak.

PRODUCT, DONE = 128, 20 + 128 - 2  # cycles of the tensor cores of an SM; latency of the product, whose steps follow each other
TEST = 29  # latency of the answer of a test
AWAY = 180 // 2  # to an mbarrier in another block: half of a round trip, on both GPUs
FORM = 128 // 16 << 24 | 256 // 8 << 17 | 1 << 4  # f16 to f32


def products(rounds: int, *, waits: bool, blocks: int = 1) -> KernelTrace:
    """A thread issues products, and commits them after each one (`waits`), or after the last one; its warp waits for that."""
    wait = """
    @%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
wait: mbarrier.try_wait.parity.shared.b64 %p, [done], %r1; @!%p bra wait;
    xor.b32 %r1, %r1, 1;"""
    text = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 rounds)
{{
    .reg .pred %p, %one; .reg .b32 %r<4>; .reg .b64 %q<2>;
    .shared .align 1024 .b8 memory[16384]; .shared .b32 where; .shared .align 8 .b64 done;
    ld.param.u32 %r0, [rounds]; mov.u32 %r2, memory; mov.u32 %r2, %tid.x; setp.eq.u32 %one, %r2, 0; mov.u32 %r1, 0;
    mov.b64 %q0, 0x0000000800080000;
    @%one mbarrier.init.shared.b64 [done], 1;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 256;
    ld.shared.b32 %r3, [where];
next:
    @%one tcgen05.mma.cta_group::1.kind::f16 [%r3], %q0, %q0, {FORM}, %one;{wait if waits else ""}
    sub.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra next;{"" if waits else wait}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;
    ret;
}}
"""
    return warpsight.trace(text, "k", grid=blocks, block=32, args=[rounds], gpu="b200", level="ptx")


def test_a_commit_arrives_when_its_products_are_done() -> None:
    one, three, each = (cycles_of_products(products(n, waits=waits)) for n, waits in ((1, False), (3, False), (3, True)))
    assert near(three - one, 2 * PRODUCT, 0.02)
    assert ((each - one) / 2 > DONE + TEST).all() and ((each - one) / 2 < DONE + TEST + 24).all()


def test_all_blocks_of_an_sm_share_its_tensor_cores() -> None:
    two = cycles_of_products(products(4, waits=False, blocks=2), "sm_count=1")
    assert (two > 8 * PRODUCT).all() and (two < 8 * PRODUCT + 120).all()


def committed_in_a_pair(*, waits: bool) -> KernelTrace:
    """Two blocks commit to both of them, and work. The first one may wait for both commits before it works."""
    wait = "wait: mbarrier.try_wait.parity.shared.b64 %p, [done], 0; @!%p bra wait;"
    text = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k()
{{
    .reg .pred %p, %one; .reg .b32 %r<3>; .reg .b16 %both; .shared .align 8 .b64 done;
    mov.u32 %r0, %tid.x; setp.eq.u32 %one, %r0, 0; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, 300; mov.b16 %both, 3;
    @%one mbarrier.init.shared.b64 [done], 2;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %both;
    setp.ne.u32 %p, %r1, 0; @%p bra work;
    {wait if waits else ""}
work:
    sub.u32 %r2, %r2, 1; setp.ne.u32 %p, %r2, 0; @%p bra work;
    ret;
}}
"""
    return warpsight.trace(text, "k", grid=2, block=32, cluster=2, gpu="b200", level="ptx")


def test_a_commit_arrives_in_all_blocks_that_its_multicast_reaches() -> None:
    waits, works = (cycles_of_products(committed_in_a_pair(waits=waits)) for waits in (True, False))
    assert (works > 300 * 4).all() and (waits > works + AWAY).all() and (waits < works + AWAY + 2 * TEST).all()


def cycles_of_products(trace: KernelTrace, *overrides: str) -> np.ndarray:
    gpu = {"gpu": "b200", "overrides": ["dispatch.grid=0 cycles", *overrides], "caches_before": "cold"}
    return np.array([answer(trace, **gpu).cycles for answer in (warpsight.predict, warpsight.simulate)])


# -- Blocks of a cluster that signal each other.

HANDSHAKE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 waits)
{
    .reg .pred %p, %one; .reg .b32 %r<9>;
    .shared .align 16 .b8 data[32]; .shared .align 8 .b64 done;
    mov.u32 %r0, %tid.x; setp.eq.u32 %one, %r0, 0; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, 300; mov.u32 %r3, done;
    ld.param.u32 %r8, [waits];
    @%one mbarrier.init.shared.b64 [done], 2;
    @%one mbarrier.arrive.expect_tx.shared.b64 _, [done], 20;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.ge.u32 %p, %r0, 32; @%p mov.u32 %r2, 600;
    or.b32 %r4, %r1, %r8; setp.ne.u32 %p, %r4, 0; @%p bra work;
    setp.ge.u32 %p, %r0, 32; @%p bra end;
wait: mbarrier.try_wait.parity.shared.b64 %p, [done], 0; @!%p bra wait;
work:
    sub.u32 %r2, %r2, 1; setp.ne.u32 %p, %r2, 0; @%p bra work;
    setp.eq.u32 %p, %r1, 0; @%p bra end; @!%one bra end;
    mov.u32 %r5, 0; mapa.shared::cluster.u32 %r4, %r3, %r5; mov.u32 %r6, data; mapa.shared::cluster.u32 %r7, %r6, %r5;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r2, [%r4];
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7+16], [%r6], 16, [%r4];
end: ret;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_what_another_block_sends_ends_a_wait_half_a_round_trip_later(level: str) -> None:
    """Block 1 works, then arrives on block 0's mbarrier and sends it bytes; block 0 works after it. Another warp works as long."""
    waits, works = (
        cycles(warpsight.trace(HANDSHAKE, "k", grid=2, block=64, cluster=2, args=[k], gpu="h100-pcie", level=level)) for k in (0, 1)
    )
    assert (works > 600 * LOOP / 2).all() and (waits > works + AWAY - TEST).all() and (waits < works + AWAY + 6 * TEST).all()
