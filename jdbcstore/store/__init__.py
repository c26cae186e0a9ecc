"""The persistence-adapter API and the stores behind it."""
