"""A persistence plug-in for amqtt::

plugins:
  jdbcstore.adapters.amqtt.JdbcSessionPlugin:
    url: sqlite:///data/mqtt.db
"""

from __future__ import annotations

from jdbcstore.adapters.amqtt.plugin import JdbcSessionPlugin

__all__ = ["JdbcSessionPlugin"]
