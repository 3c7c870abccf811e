"""A cache that concurrent runs share: what an entry is, who fills it, and the places where entries rest."""
