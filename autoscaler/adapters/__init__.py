"""Translations to and from the world outside: each vendor is imported in one adapter only."""
