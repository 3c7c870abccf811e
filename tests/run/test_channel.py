"""Messages between a process and its worker."""

from __future__ import annotations

import pytest

from feedline.run.channel import Channel, Closed


def test_what_was_sent_before_the_end_arrives_though_the_other_side_did_not_read_all():
    here, there = Channel.pair()
    other = Channel(there)
    other.send(b"first")
    other.send(b"second")
    here.send(b"never read")
    other.close()
    assert [here.receive()[0], here.receive()[0]] == [b"first", b"second"]
    with pytest.raises(Closed):
        here.receive()
    here.close()
