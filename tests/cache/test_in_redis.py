"""Entries in Redis, against a real server."""

from __future__ import annotations

import pytest

from feedline.cache.in_redis import RedisStore
from tests.cache.conformance import StoreSuite
from tests.cache.redis_server import running


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


class TestRedisStore(StoreSuite):
    @pytest.fixture
    def location(self, shared_server):
        RedisStore(shared_server.url)._client.call("flushall")
        return shared_server.url

    @staticmethod
    def make_store(location):
        return RedisStore(location)
