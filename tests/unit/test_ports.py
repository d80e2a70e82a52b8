"""Ports that are chosen for servers."""

from pathlib import Path

from trilayer_local.ports import BEHIND_LAST, FIRST, free_port, is_free


def test_a_chosen_port_is_free_and_none_of_those_given_to_connections():
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_given = int(given.read_text().split()[0]) if given.exists() else BEHIND_LAST
    ports = [free_port() for _ in range(100)]
    assert all(is_free(port) for port in ports)
    assert all(FIRST <= port < first_given for port in ports)
    assert len(set(ports)) > 50
