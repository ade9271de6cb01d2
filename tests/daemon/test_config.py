"""Defaults, file, environment and flags, in that order; everything unknown is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config import KEYS, RELOADABLE, load_config, show_config
from daemon.peers import Credentials, Peers
from journal.codes import CallerRole, Via
from journal.errors import BadConfiguration
from journal.space import READ_ONLY_BELOW_BYTES


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "noctuary.toml"
    path.write_text(text)
    return str(path)


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    file = write(tmp_path, 'zone = "Europe/Berlin"\nnode = 1\nlog_level = "debug"\n')
    config = load_config(file, {"node": 3, "socket": None}, {"NOCTUARY_NODE": "2", "NOCTUARY_LOG_LEVEL": "error"})
    assert (config.zone, config.log_level, config.node) == ("Europe/Berlin", "error", 3)
    assert config.sources["zone"] == f"file:{file}"
    assert [config.sources[key] for key in ("log_level", "node", "stuck_client_s")] == [
        "environment",
        "flag",
        "default",
    ]
    shown: list[str] = []
    show_config(config, shown.append)
    assert "node = 3  # flag\n" in shown


@pytest.mark.parametrize(
    "text",
    [
        "nod = 1",
        "node = 1024",
        'zone = "Mars/Olympus"',
        "half_line_s = 0",
        "node = [",
        '[[peer]]\nrole = "agent"\ntenant = "a"',
        '[[peer]]\nuid = 65534\nrole = "agent"\ntenant = "a"',
        '[[peer]]\nuid = 1\nrole = "agent"\ntenant = "A"',
        '[[peer]]\nuid = 1\nrole = "agent"\ntenant = "a"\ncolour = 1',
        '[[tenant]]\nname = "a"',
        "[[tenant]]\nmax_bytes = 1",
        '[[tenant]]\nname = "A"\nmax_bytes = 1',
        '[[tenant]]\nname = "a"\nmax_bytes = 0',
        '[[tenant]]\nname = "a"\nmax_bytes = 1\n[[tenant]]\nname = "a"\nmax_bytes = 2',
        "read_only_below_bytes = 1048575",
        "read_only_below_bytes = 1099511627777",
    ],
)
def test_what_is_wrong_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        load_config(write(tmp_path, text), environ={})
    assert caught.value.exit_code == 78


def test_unknown_variables_and_missing_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration):
        load_config(write(tmp_path, ""), environ={"NOCTUARY_NODES": "1"})
    with pytest.raises(BadConfiguration):
        load_config(str(tmp_path / "none.toml"), environ={})


def test_peers_map_users_to_rights(tmp_path: Path) -> None:
    text = (
        '[[peer]]\nuid = 5\nrole = "auditor"\ntenant = "a"\nreads = ["b"]\n'
        '[[peer]]\ngroup = 7\nrole = "agent"\ntenant = "c"\n'
    )
    peers = Peers(load_config(write(tmp_path, text), environ={}).peers)
    auditor = peers.caller(Credentials(5, frozenset({5})), Via.HOOK)
    assert auditor is not None and auditor.role is CallerRole.AUDITOR and auditor.via is Via.HOOK
    assert auditor.may_read("b") and not auditor.may_write("b") and not auditor.content
    agent = peers.caller(Credentials(6, frozenset({6, 7})), Via.CLIENT)
    assert agent is not None and agent.tenant == "c"
    assert peers.caller(Credentials(0, frozenset({0})), Via.CLIENT) is None
    assert Peers(()).caller(Credentials(65534, frozenset({0})), Via.CLIENT) is None


def test_tenants_have_bounds_and_the_disk_a_threshold(tmp_path: Path) -> None:
    text = (
        'read_only_below_bytes = 67108864\n[[tenant]]\nname = "a"\nmax_bytes = 5\n[[tenant]]\nname = "b"\nmax_bytes = 6'
    )
    config = load_config(write(tmp_path, text), environ={"NOCTUARY_TENANT": "a"})
    assert config.max_bytes == {"a": 5, "b": 6}
    assert config.read_only_below_bytes == 64 << 20
    assert load_config(write(tmp_path, ""), environ={}).read_only_below_bytes == READ_ONLY_BELOW_BYTES
    over = load_config(write(tmp_path, text), environ={"NOCTUARY_READ_ONLY_BELOW_BYTES": "2097152"})
    assert over.read_only_below_bytes == 2 << 20


def test_what_reloads_is_a_key() -> None:
    assert set(KEYS) > RELOADABLE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[peer]]\nuid = 1\nrole = "boss"\ntenant = "a"', ("number 1", "role", "agent, auditor, operator")),
        ('[[peer]]\nuid = 1\nrole = "agent"\ntenant = "a"\ngrants = ["all"]', ("grants", "content, purge, export")),
        ('[[peer]]\nuid = 1\nrole = "agent"\ntenant = "a"\n[[peer]]\nrole = "agent"\ntenant = "a"', ("number 2",)),
        ('[[peer]]\nuid = 1\nrole = "agent"\ntenant = "a"\n[[peer]]\nuid = 2\nrole = "agent"', ("number 2", "tenant")),
        ('[[peer]]\nuid = 1\nrole = "agent"\ntenant = "a"\n[[peer]]\nuid = 1\nrole = "auditor"\ntenant = "b"',
         ("number 2", "uid 1", "number 1")),
        ('[[peer]]\ngroup = 7\nrole = "agent"\ntenant = "a"\n[[peer]]\ngroup = "7"\nrole = "auditor"\ntenant = "b"',
         ("number 2", "group 7")),
        ('log_level = "loud"', ("log_level", "debug, info, warning, error")),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_entry_its_file_and_what_may_stand_there(
    tmp_path: Path, text: str, told: tuple[str, ...]
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(BadConfiguration) as caught:
        load_config(file, environ={})
    for words in (file, *told):
        assert words in str(caught.value)


def test_a_user_and_a_group_of_one_number_are_no_repetition(tmp_path: Path) -> None:
    entries = "".join(f'[[peer]]\n{key} = 7\nrole = "agent"\ntenant = "a"\n' for key in ("uid", "group"))
    assert len(load_config(write(tmp_path, entries), environ={}).peers) == 2
