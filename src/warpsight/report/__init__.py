"""Result documents to terminal text, JSON and CSV. Pure functions; nothing is computed here."""
