"""A matrix product in Triton. `arch=80` would take the tensor cores. Needs: pip install triton."""

import numpy as np
import triton
import triton.language as tl

import warpsight


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    """c = a b, a tile of BM x BN a program."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + i[:, None] * K + (start + k)[None, :], mask=i[:, None] < M, other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + j[None, :], mask=j[None, :] < N, other=0.0)
        total += tl.dot(left, right)
    tl.store(c + i[:, None] * N + j[None, :], total, mask=(i[:, None] < M) & (j[None, :] < N))


def main(arch: int = 75) -> None:
    """Trace, check, predict."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((96, 128)).astype(np.float16), rng.standard_normal((128, 80)).astype(np.float16)
    c = np.zeros((96, 80), np.float32)
    blocks = {"BM": 32, "BN": 32, "BK": 32}
    trace = warpsight.trace(
        matmul,
        grid=lambda meta: (triton.cdiv(meta["M"], meta["BM"]), triton.cdiv(meta["N"], meta["BN"])),
        args=[a, b, c, 96, 80, 128],
        constants=blocks,
        arch=arch,
    )
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
    prediction = warpsight.predict(trace)
    print(f"the product is right, and takes {prediction.cycles:,.0f} cycles on {prediction.gpu}")


if __name__ == "__main__":
    main()
