"""The executors. A module of this package registers itself when it is imported; `jobs.executor` imports all of them."""
