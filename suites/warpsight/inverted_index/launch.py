"""Documents of 8 to 23 words; how often a word occurs follows Zipf's law over a vocabulary of 50,000."""

import numpy as np

DOCUMENTS, VOCABULARY = 28 * 512, 50_000

rng = np.random.default_rng(21)
starts = np.concatenate(([0], np.cumsum(rng.integers(8, 24, DOCUMENTS)))).astype(np.int32)
words = (VOCABULARY ** rng.random(starts[-1])).astype(np.int32) - 1
list_start = np.concatenate(([0], np.cumsum(np.bincount(words, minlength=VOCABULARY)))).astype(np.int32)

source, grid, block = "kernel.cu", DOCUMENTS // 64, 64
args = [starts, words, list_start, np.zeros(VOCABULARY, np.int32), np.full(words.size, -1, np.int32), DOCUMENTS]
