"""The operator's view: the commands of ``jdbcstore``."""
