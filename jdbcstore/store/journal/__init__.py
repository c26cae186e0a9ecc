"""Stores that are journals: files to which records are appended, and an index of what is live in them."""
