"""Particles on a disturbed cubic lattice, numbered along it, and for each of them twelve of those around it."""

import numpy as np

SIDE, EACH = 30, 12
COUNT = 28 * 960

rng = np.random.default_rng(40)
number = np.arange(COUNT)
place = np.stack([number % SIDE, number // SIDE % SIDE, number // SIDE**2], axis=1)
position = np.zeros((COUNT, 4), np.float32)
position[:, :3] = 1.3 * place + rng.uniform(-0.15, 0.15, (COUNT, 3))
steps = [(dx, dy, dz) for dz in (-1, 0, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dx, dy, dz) != (0, 0, 0)]
shifts = np.array([dx + SIDE * (dy + SIDE * dz) for dx, dy, dz in steps])
chosen = np.argsort(rng.random((COUNT, len(shifts))), axis=1)[:, :EACH]
neighbours = np.ascontiguousarray(((number[:, None] + shifts[chosen]) % COUNT).T.astype(np.int32))

source, grid, block = "kernel.cu", COUNT // 128, 128
args = [position, neighbours, np.zeros((COUNT, 4), np.float32), COUNT, EACH, 6.0]
