"""STOMP clients: frames of `jdbcstore.stomp` to the broker's face (`jdbcstore.broker.client`), and back."""
