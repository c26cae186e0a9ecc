"""ActiveMQ's JDBC message store in Python."""
