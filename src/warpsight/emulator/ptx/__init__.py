"""What each PTX instruction computes, by family, and the one table of handlers."""
