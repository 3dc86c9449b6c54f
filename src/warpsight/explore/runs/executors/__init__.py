"""The executors. A module of this package registers itself when it is imported; `runs.executor` imports all of them."""
