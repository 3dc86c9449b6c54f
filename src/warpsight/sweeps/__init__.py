"""Many designs at once: a study from its file to rows of results, and the answers that they give."""
