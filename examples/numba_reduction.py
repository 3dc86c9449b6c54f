"""A sum in shared memory with Numba, one partial sum a block, and what bounds it. Needs: pip install 'numba-cuda[cu13]'."""

import numpy as np
from numba import cuda, float32

import warpsight

THREADS = 256


@cuda.jit
def partial_sums(values, sums):
    """Each block adds up its share of `values`."""
    shared = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        total += values[i]
    shared[t] = total
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            shared[t] += shared[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = shared[0]


def main() -> None:
    """Trace, check, predict."""
    values = np.random.default_rng(2).random(200_000, np.float32)
    sums = np.zeros(64, np.float32)
    trace = warpsight.trace(partial_sums[64, THREADS], args=[values, sums])
    np.testing.assert_allclose(sums.sum(dtype=np.float64), values.sum(dtype=np.float64), rtol=1e-5)
    prediction = warpsight.predict(trace)
    print(f"the sum is right, and takes {prediction.cycles:,.0f} cycles on {prediction.gpu}")


if __name__ == "__main__":
    main()
