"""SciPy's k-d tree."""

from scipy.spatial import cKDTree


def expected(queries, references, nearest, query_count, reference_count):
    """`nearest`, squared distances."""
    distances, _ = cKDTree(references.T).query(queries.T, k=4)
    return {"nearest": distances.T**2}
