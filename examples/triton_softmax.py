"""A softmax in Triton, a row a program, run without a GPU. Needs: pip install triton."""

import numpy as np
import triton
import triton.language as tl

import warpsight


@triton.jit
def softmax(out, values, stride, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Each program does one row."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(values + row * stride + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)


def main() -> None:
    """Trace, check, predict."""
    values = np.random.default_rng(3).standard_normal((128, 781), np.float32)
    out = np.zeros_like(values)
    trace = warpsight.trace(softmax, grid=(128,), args=[out, values, 781, 781], constants={"BLOCK": 1024, "num_warps": 4})
    e = np.exp(values - values.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    prediction = warpsight.predict(trace)
    print(f"softmax is right, and takes {prediction.cycles:,.0f} cycles on {prediction.gpu}")


if __name__ == "__main__":
    main()
