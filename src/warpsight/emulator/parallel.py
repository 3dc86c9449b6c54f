"""Blocks on several threads, with the outcome of blocks in order. Native code holds no interpreter lock.

Chunks of consecutive blocks are handed out in order, so each worker's chunks follow each other as they would in order. What remains
to be seen is whether two workers touched a sector that one of them wrote: then the outcome might have been another, and the launch
is run again in order. The first two chunks run one after the other, so that a kernel whose blocks share sectors is found out
before anything is lost.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

from warpsight.emulator.conflicts import FIRST_SECTOR, AccessTable, conflict, mark, new_marks
from warpsight.emulator.worker import Streams, Worker

MIN_BLOCKS = 16
CHUNKS_PER_WORKER = 32
# Consecutive blocks often write neighbouring words; eight 4-byte words are a sector.
CHUNK_MULTIPLE = 8
MIN_SECONDS = 0.03  # less work than this is not worth the threads


class Conflict(Exception):
    """Two workers touched what one of them wrote."""


class Apart:
    """The blocks of a launch on several workers. `arena_bytes` is the size of device memory."""

    def __init__(self, workers: list[Worker], table: AccessTable, arena_bytes: int, blocks: int) -> None:
        self._workers, self._table, self._blocks = workers, table, blocks
        self._marks = {id(worker): new_marks(arena_bytes) for worker in workers}
        share = -(-blocks // (len(workers) * CHUNKS_PER_WORKER))
        self._chunk = -(-share // CHUNK_MULTIPLE) * CHUNK_MULTIPLE

    def streams(self) -> Iterator[Streams]:
        """What all blocks record, in order. Raises Conflict, at the latest at the end, and Stopped."""
        first, second, *_ = self._workers
        started = time.perf_counter()
        yield from self._work(first, 0)
        yield from self._work(second, self._chunk)
        per_block = (time.perf_counter() - started) / (2 * self._chunk)
        done = 2 * self._chunk
        left = self._blocks - done
        self._check()
        if left <= 0:
            return
        if per_block * left < MIN_SECONDS:
            yield from second.streams(done, self._blocks)
            return
        yield from self._spread(done)
        self._check()

    def _check(self) -> None:
        if conflict(list(self._marks.values())):
            raise Conflict

    def _work(self, worker: Worker, block: int) -> list[Streams]:
        """One chunk on one worker."""
        found = []
        for part in worker.streams(block, min(block + self._chunk, self._blocks)):
            mark(
                part.entries, part.events, part.sectors, part.offsets,
                self._table.start, self._table.rows, self._marks[id(worker)], FIRST_SECTOR,
            )  # fmt: skip
            found.append(part)
        return found

    def _spread(self, block: int) -> Iterator[Streams]:
        """All chunks from `block` on; at most three per worker are begun and not yet taken."""
        chunks = iter(range(block, self._blocks, self._chunk))
        begun: queue.SimpleQueue[Future[list[Streams]] | None] = queue.SimpleQueue()
        room, take = threading.Semaphore(3 * len(self._workers)), threading.Lock()
        stop = threading.Event()

        def serve(worker: Worker) -> None:
            while True:
                room.acquire()
                with take:  # chunk and place in the queue at once, so that a worker's chunks, and the results, are in order
                    at = None if stop.is_set() else next(chunks, None)
                    future: Future[list[Streams]] = Future()
                    begun.put(None if at is None else future)
                if at is None:
                    return
                try:
                    future.set_result(self._work(worker, at))
                except BaseException as error:  # raised again where the result is taken
                    future.set_exception(error)
                    return

        threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        try:
            while (future := begun.get()) is not None:
                yield from future.result()
                room.release()
        finally:
            stop.set()
            room.release(len(threads))
            for thread in threads:
                thread.join()
