"""The configuration: defaults, a TOML file over them, `NOCTUARY_*` over that, flags over all.

| key | type | default | unit | range |
|---|---|---|---|---|
| state | path | place of the service or the user | | |
| socket | path | place of the service or the user | | at most 107 bytes |
| socket_group | name or number | none | | an existing group |
| zone | text | UTC | | an IANA zone |
| node | integer | 0 | | 0..1023 |
| log_level | text | info | | debug, info, warning, error |
| half_line_s | number | 30 | seconds | 0.1..3600 |
| stuck_client_s | number | 30 | seconds | 0.1..3600 |
| stop_within_s | number | 2 | seconds | 0.1..3600 |
| copy_every_records | integer | 250000 | records, 0: never | 0..10^12 |
| vacuum_threshold | number | 0.2 | dead over all rows of a partition | 0.01..1 |
| read_only_below_bytes | integer | 16 MiB | bytes | 1 MiB..1 TiB |
| master_key | path | none | | a file with the master key (`keyfile.py`) |

`[[peer]]` has uid or group, tenant, role, and reads, writes, grants. `[[tenant]]` has name and max_bytes. An unknown
key is an error.
"""

from __future__ import annotations

import grp
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from daemon.moment import VACUUM_THRESHOLD
from daemon.peers import OVERFLOW_ID, PeerEntry
from daemon.wire.vocabulary import TenantName
from journal.codes import CallerRole
from journal.errors import BadConfiguration

Seconds = Annotated[float, Meta(ge=0.1, le=3600.0)]
PREFIX = "NOCTUARY_"
DISK_MIN, DISK_MAX = 1 << 20, 1 << 40
_AT = re.compile(r" - at `\$\.(\w+)(?:\[(\d+)\])?(?:\.(\w+))?.*`$")
_NOT_SETTINGS = frozenset({"NOCTUARY_CONFIG", "NOCTUARY_TENANT"})  # for clients, and where the file is


class PeerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tenant: TenantName
    role: Literal["agent", "auditor", "operator"]
    uid: Annotated[int, Meta(ge=0, le=(1 << 32) - 1)] | None = None
    group: str | int | None = None
    reads: list[TenantName] = []
    writes: list[TenantName] = []
    grants: list[Literal["content", "purge", "export"]] = []


class TenantTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`max_bytes` bounds what the tenant may keep: 512 a record, and the lengths of all sealed texts."""

    name: TenantName
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 60)]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The effective configuration. `sources` says of each key where its value came from."""

    state: str
    socket: str
    socket_group: str | int | None = None
    zone: str = "UTC"
    node: Annotated[int, Meta(ge=0, le=1023)] = 0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    half_line_s: Seconds = 30.0
    stuck_client_s: Seconds = 30.0
    stop_within_s: Seconds = 2.0
    copy_every_records: Annotated[int, Meta(ge=0, le=10**12)] = 250_000
    vacuum_threshold: Annotated[float, Meta(ge=0.01, le=1.0)] = VACUUM_THRESHOLD
    read_only_below_bytes: Annotated[int, Meta(ge=DISK_MIN, le=DISK_MAX)] = 16 << 20
    master_key: str | None = None
    peer: list[PeerTable] = []
    tenant: list[TenantTable] = []
    sources: dict[str, str] = {}

    @property
    def peers(self) -> tuple[PeerEntry, ...]:
        return tuple(_entry(table, self.place("peer", number)) for number, table in enumerate(self.peer, 1))

    def place(self, table: str, number: int) -> str:
        """What to call an entry of a table, from 1, with the file that it stands in."""
        return _place(table, number, self.sources)

    @property
    def max_bytes(self) -> dict[str, int]:
        """The bound of each tenant that has one, by name."""
        return {table.name: table.max_bytes for table in self.tenant}

    @property
    def socket_gid(self) -> int | None:
        return None if self.socket_group is None else _gid("socket_group", self.socket_group)


KEYS = tuple(name for name in Config.__struct_fields__ if name != "sources")
RELOADABLE = frozenset({"peer", "tenant", "log_level", "half_line_s", "stuck_client_s", "read_only_below_bytes"})
TABLES = frozenset({"peer", "tenant"})
"""Keys that only the file can give."""


def default_state(environ: Mapping[str, str]) -> str:
    if "STATE_DIRECTORY" in environ:
        return environ["STATE_DIRECTORY"].split(":")[0]
    if os.geteuid() == 0:
        return "/var/lib/noctuary"
    home = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{home}/noctuary"


def default_socket(environ: Mapping[str, str]) -> str:
    if "RUNTIME_DIRECTORY" in environ:
        return f"{environ['RUNTIME_DIRECTORY'].split(':')[0]}/noctuary.sock"
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    if os.path.isdir(runtime):
        return f"{runtime}/noctuary/noctuary.sock"
    return "/run/noctuary/noctuary.sock"


def find_file(flag: str | None, environ: Mapping[str, str]) -> Path | None:
    """The configuration file. One that was named must be there."""
    named = flag or environ.get("NOCTUARY_CONFIG")
    if named:
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places = (Path(home, "noctuary/noctuary.toml"), Path("/etc/noctuary/noctuary.toml"))
    return next((place for place in places if place.is_file()), None)


def load_config(
    file: str | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The effective configuration. Raises BadConfiguration, naming the key."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {"state": default_state(environ), "socket": default_socket(environ)}
    sources = dict.fromkeys(KEYS, "default")
    path = find_file(file, environ)
    if path is not None:
        _lay_over(values, sources, _read_file(path), f"file:{path}")
    _lay_over(values, sources, _from_environ(environ), "environment")
    _lay_over(values, sources, {k: v for k, v in (flags or {}).items() if v is not None}, "flag")
    try:
        config = msgspec.convert({**values, "sources": sources}, Config, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfiguration(f"configuration: {_explained(str(error), sources)}") from None
    _check(config)
    return config


def _lay_over(values: dict[str, Any], sources: dict[str, str], over: dict[str, Any], source: str) -> None:
    for key, value in over.items():
        if key not in KEYS:
            raise BadConfiguration(f"configuration: there is no key {key} ({source})")
        values[key] = value
        sources[key] = source


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadConfiguration(f"configuration file {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadConfiguration(f"configuration file {path}: {error}") from None


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and name not in _NOT_SETTINGS
    }


def _place(table: str, number: int, sources: Mapping[str, str]) -> str:
    return f"[[{table}]] number {number} ({sources.get(table, 'default')})"


def _explained(error: str, sources: Mapping[str, str]) -> str:
    """What msgspec found, with the place as it stands in the file, and what may stand there instead."""
    found = _AT.search(error)
    if found is None:
        table = re.search(r"`\$\.(peer|tenant)\[(\d+)\]`", error)
        return error if table is None else f"{_place(table[1], int(table[2]) + 1, sources)}: {error}"
    key, number, field = found.groups()
    said = error[: found.start()]
    said = said[:1].lower() + said[1:]
    if number is None:
        return f"{key}: {said}{_allowed(Config, key)} ({sources.get(key, 'default')})"
    struct = PeerTable if key == "peer" else TenantTable
    where = f"{_place(key, int(number) + 1, sources)}: "
    return where + (f"{field}: {said}{_allowed(struct, field)}" if field else said)


def _allowed(struct: type[msgspec.Struct], field: str) -> str:
    """`: a, b` when only those words may stand there."""
    kind = next((each.type for each in msgspec.structs.fields(struct) if each.name == field), None)
    options = get_args(get_args(kind)[0]) if get_origin(kind) is list else get_args(kind)
    words = [option for option in options if isinstance(option, str)]
    return f"; it is one of {', '.join(words)}" if words and get_origin(kind) in (Literal, list) else ""


def _check(config: Config) -> None:
    try:
        ZoneInfo(config.zone)
    except (KeyError, ValueError, OSError):
        raise BadConfiguration("configuration: zone is no IANA zone") from None
    _check_peers(config)
    _ = config.socket_gid
    if len(config.max_bytes) != len(config.tenant):
        raise BadConfiguration("configuration: a tenant has more than one [[tenant]]")


def _check_peers(config: Config) -> None:
    """Each entry can be used, and counts: the first that fits decides, so a second for the same user never would."""
    seen: dict[tuple[str, int], int] = {}
    for number, entry in enumerate(config.peers, 1):
        key = ("uid", entry.uid) if entry.uid is not None else ("group", entry.gid or 0)
        first = seen.setdefault(key, number)
        if first != number:
            message = f"{key[0]} {key[1]} has an entry already, number {first}, which decides: this would never count"
            raise BadConfiguration(f"configuration: {config.place('peer', number)}: {message}")


def _entry(table: PeerTable, place: str) -> PeerEntry:
    if (table.uid is None) == (table.group is None):
        raise BadConfiguration(f"configuration: {place}: a peer has either uid or group")
    gid = None if table.group is None else _gid(f"{place}: group", table.group)
    if OVERFLOW_ID in (table.uid, gid):
        raise BadConfiguration(f"configuration: {place}: {OVERFLOW_ID} can't be mapped")
    return PeerEntry(
        role=CallerRole[table.role.upper()],
        tenant=table.tenant,
        uid=table.uid,
        gid=gid,
        reads=frozenset(table.reads),
        writes=frozenset(table.writes),
        grants=frozenset(table.grants),
    )


def _gid(key: str, group: str | int) -> int:
    if isinstance(group, int) or group.isdecimal():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise BadConfiguration(f"configuration: {key} is no group here") from None


def show_config(config: Config, write: Callable[[str], object]) -> None:
    """One line a key: its value and where it came from."""
    for key in KEYS:
        value = msgspec.json.encode(getattr(config, key)).decode()
        write(f"{key} = {value}  # {config.sources[key]}\n")
