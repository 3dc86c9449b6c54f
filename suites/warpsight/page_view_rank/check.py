"""Field by field over all records."""

import numpy as np


def expected(views, score, page_views, count, least_seconds):
    """`score` and `page_views`."""
    seconds, size = views["seconds"].astype(np.float64), views["bytes"].astype(np.float64)
    kept = views["page"][views["seconds"] >= least_seconds]
    return {
        "score": np.log1p(seconds) / np.sqrt(1 + size),
        "page_views": np.bincount(kept, minlength=page_views.size).astype(np.uint32),
    }
