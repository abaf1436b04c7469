"""Connections by address: who gives way when there are too many, and how clients are told apart."""

import subprocess
import sys

import pytest
from uvicorn.server import ServerState

from resus.serving.http.connections import Connections, address_of, connections_of


class Dialled:
    def __init__(self, address: str = "a") -> None:
        self.address = address
        self.gave_way = False

    def give_way(self) -> None:
        self.gave_way = True


def test_the_connection_that_waits_longest_gives_way() -> None:
    connections = Connections(per_address=3, in_all=100)
    first, second, third, fourth = dialled = [Dialled() for _ in range(4)]
    other = Dialled("b")
    assert connections.admit(other)
    for one in (first, second, third):
        assert connections.admit(one)
    connections.begin(first)
    assert connections.admit(fourth)
    assert [one.gave_way for one in [*dialled, other]] == [False, True, False, False, False]


def test_a_connection_without_a_place_is_refused_until_one_leaves() -> None:
    connections = Connections(per_address=2, in_all=100)
    busy = [Dialled(), Dialled()]
    for one in busy:
        assert connections.admit(one)
        connections.begin(one)
    late = Dialled()
    assert not connections.admit(late)
    connections.leave(late)
    connections.leave(busy[0])
    assert connections.admit(Dialled())
    assert not any(one.gave_way for one in busy)


def test_a_connection_that_answered_waits_again_behind_the_others() -> None:
    connections = Connections(per_address=2, in_all=100)
    first, second = Dialled(), Dialled()
    connections.admit(first)
    connections.admit(second)
    connections.begin(first)
    connections.wait(first)
    connections.admit(Dialled())
    assert (first.gave_way, second.gave_way) == (False, True)


def test_addresses_share_what_a_process_may_open() -> None:
    connections = Connections(per_address=10, in_all=3)
    dialled = [Dialled(f"{number}") for number in range(4)]
    assert all(connections.admit(one) for one in dialled)
    assert [one.gave_way for one in dialled] == [True, False, False, False]


def test_a_server_has_its_own_connections() -> None:
    server = ServerState()
    assert connections_of(server) is connections_of(server)
    assert connections_of(server) is not connections_of(ServerState())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("2001:db8:1:2::9", "2001:0db8:0001:0002"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        ("no address", "no address"),
    ],
)
def test_a_client_is_an_address_or_a_network(host: str, address: str) -> None:
    assert address_of(host) == address


LIMITED = """
import resource
from resus.serving.http.connections import Connections
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(Connections()._in_all, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "files"),
    [(256, 256, 128, 256), (256, 1024, 896, 1024), (256, 8192, 4096, 4224), (64, 64, 16, 64)],
)
def test_a_process_has_no_more_connections_than_files(soft: int, hard: int, connections: int, files: int) -> None:
    words = [sys.executable, "-c", LIMITED.format(soft=soft, hard=hard)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"{connections}", f"{files}"]
