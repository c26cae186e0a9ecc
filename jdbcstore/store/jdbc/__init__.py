"""The SQL store: ActiveMQ's three tables on SQLite, PostgreSQL, MySQL and MariaDB."""
