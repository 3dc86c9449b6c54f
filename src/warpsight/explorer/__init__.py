"""The explorer: a server on localhost that predicts a kernel as it is written. ADR 0038 says how it is built."""
