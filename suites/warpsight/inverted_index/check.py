"""A stable sort of all occurrences by word. Within the list of a word documents may stand in any order: they are sorted first."""

import numpy as np


def expected(starts, words, list_start, used, lists, documents):
    """`used`, and `lists` with the word of each entry before it."""
    own = np.repeat(np.arange(documents, dtype=np.int32), np.diff(starts))
    return {"used": np.diff(list_start), "lists": own[np.argsort(words, kind="stable")]}


def comparable(outputs):
    """The same with each list in ascending order; `used` says where lists end."""
    word = np.repeat(np.arange(outputs["used"].size), outputs["used"])
    lists = outputs["lists"]
    in_order = lists[np.lexsort((lists, word))] if word.size == lists.size else lists[:0]
    return {"used": outputs["used"], "lists": in_order}
