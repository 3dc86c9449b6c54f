"""Records of letters from an alphabet of six, so that the word is begun often and met in some."""

import numpy as np

RECORDS, SIZE = 28 * 320, 64

rng = np.random.default_rng(20)
records = rng.choice(np.frombuffer(b"warpse", np.uint8), (RECORDS, SIZE))
word = np.frombuffer(b"warp", np.uint8).copy()

source, grid, block = "kernel.cu", RECORDS // 128, 128
args = [records, word, np.zeros(RECORDS, np.int32), RECORDS, word.size]
