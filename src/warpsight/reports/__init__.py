"""Result documents as terminal text, HTML, JSON and CSV. Pure functions; nothing is computed here."""
