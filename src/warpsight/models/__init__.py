"""Performance models, one a file: interval profile and GPU description in, prediction out."""
