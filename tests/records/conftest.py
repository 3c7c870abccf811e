"""What tests of record files share."""

import pytest

from tests.records.corrupt import frames


@pytest.fixture
def write(tmp_path):
    """Writes a file of records with these payloads; `pack` compresses it."""

    def write(name, payloads, pack=bytes):
        path = tmp_path / name
        path.write_bytes(pack(frames(payloads)))
        return path

    return write
