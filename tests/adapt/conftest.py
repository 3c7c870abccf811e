import socket

import pytest


@pytest.fixture
def free_port():
    """Gives ports that nobody listened on when it was asked."""

    def port():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    return port
