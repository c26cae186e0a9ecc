"""What tests against a real ActiveMQ share."""

from __future__ import annotations

import pytest

from tests.compat.activemq import compile_java


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled Java programs and everything they need, for `ActiveMQ` and its JMS client."""
    return compile_java(tmp_path_factory.mktemp("java"))
