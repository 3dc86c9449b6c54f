"""A Numba kernel on a GPU that is not there: run it, check it against NumPy, predict its speed.

Needs a compiler for Numba's kernels: pip install 'numba-cuda[cu13]'
"""

import numpy as np
from numba import cuda

import warpsight


@cuda.jit
def saxpy(a, x, y):
    """y = a x + y."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def main() -> None:
    """Trace, check, predict."""
    rng = np.random.default_rng(1)
    x, y = rng.random(100_000, np.float32), rng.random(100_000, np.float32)
    expected = y + np.float32(2) * x
    trace = warpsight.trace(saxpy, grid=391, block=256, args=[np.float32(2), x, y])
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    prediction = warpsight.predict(trace)
    print(f"saxpy is right, and takes {prediction.cycles:,.0f} cycles on {prediction.gpu}")


if __name__ == "__main__":
    main()
