"""The executors. A module of this package registers itself when imported; `jobs.executor.EXECUTORS` imports all of them."""
