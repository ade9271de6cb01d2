"""A daemon and the command line with a master key: given in every way, missing, wrong, changed, and never shown."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.journal.mastered import KEYS, everything_in, key_file
from tests.system.process import ENTRY, ROOT, DaemonEnded, DaemonProcess, everything

TEXT = "the rosemary survived"


def cli(daemon: DaemonProcess, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command on a store that no daemon has open."""
    return subprocess.run(
        [*ENTRY, *words], cwd=ROOT, env={**daemon.environment, **variables}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def refused(daemon: DaemonProcess, *flags: str) -> str:
    """What a start says that ends with 78 and leaves every file as it was."""
    before, logged = daemon.files(), len(daemon.logged())
    daemon.spawn(*flags)
    assert daemon.wait() == 78
    assert daemon.files() == before
    return daemon.logged()[logged:]


def remember(daemon: DaemonProcess, count: int = 1) -> None:
    items = [{"kind": "raw", "text": f"{TEXT} {number}", "origin": "stated"} for number in range(count)]
    daemon.call("remember_many", items=items)


def texts(daemon: DaemonProcess) -> list[str]:
    return sorted(memory["text"] for memory in everything(daemon))


def written(daemon: DaemonProcess, *flags: str, count: int = 1) -> list[str]:
    """A store made with a daemon that was started so, with texts in it; stopped."""
    daemon.start(*flags)
    remember(daemon, count)
    found = texts(daemon)
    assert daemon.stop() == 0
    return found


def test_the_key_may_be_given_in_each_way(stopped: DaemonProcess, short_dir: Path) -> None:
    old = key_file(short_dir, "old")
    wanted = written(stopped, "--master-key", str(old))
    (short_dir / "credentials").mkdir()
    credential = short_dir / "credentials" / "noctuary-master-key"
    old.rename(credential)
    (short_dir / "noctuary.toml").write_text(f'master_key = "{credential}"\n')
    for flags, variables in (
        ((f"--master-key={credential}",), {}),
        (("--config", str(short_dir / "noctuary.toml")), {}),
        ((), {"NOCTUARY_MASTER_KEY": str(credential)}),
        ((), {"CREDENTIALS_DIRECTORY": str(credential.parent)}),
    ):
        stopped.variables = dict(variables)
        stopped.start(*flags)
        assert texts(stopped) == wanted
        assert stopped.stop() == 0
    stopped.variables = {}
    assert "none was given" in refused(stopped)


def test_a_key_that_is_wrong_missing_unwanted_or_open_to_others_ends_the_start(
    stopped: DaemonProcess, short_dir: Path
) -> None:
    old, new = key_file(short_dir, "old"), key_file(short_dir, "new")
    wanted = written(stopped, "--master-key", str(old))
    assert "none was given" in refused(stopped)
    assert "not the one" in refused(stopped, "--master-key", str(new))
    assert "No such file" in refused(stopped, "--master-key", str(short_dir / "absent"))
    old.chmod(0o644)
    assert "0644" in refused(stopped, "--master-key", str(old))
    old.chmod(0o600)
    old.write_bytes(KEYS["old"][:31])
    assert "31 bytes" in refused(stopped, "--master-key", str(old))
    old.write_bytes(KEYS["old"])
    assert "damaged" not in stopped.logged().replace("Nothing was found damaged", "")
    stopped.start("--master-key", str(old))
    assert texts(stopped) == wanted
    assert stopped.stop() == 0
    assert (
        cli(stopped, "rekey", "--state", str(stopped.state), "--master-key", str(old), "--remove-master-key").returncode
        == 0
    )
    assert "noctuary rekey" in refused(stopped, "--master-key", str(old))


def test_it_is_put_on_changed_and_taken_off(stopped: DaemonProcess, short_dir: Path) -> None:
    old, new = (str(key_file(short_dir, name)) for name in ("old", "new"))
    wanted = written(stopped, count=3)
    state = ("--state", str(stopped.state))
    stopped.start()
    assert cli(stopped, "rekey", *state, "--new-master-key", old).returncode == 75
    assert stopped.stop() == 0
    done = cli(stopped, "--json", "rekey", *state, "--new-master-key", old)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["master_key"] and told["changed"] and told["keys"] >= 3 and told["given_up"] == []
    again = cli(stopped, "--json", "rekey", *state, "--new-master-key", old)
    assert again.returncode == 0 and not json.loads(again.stdout)["changed"]
    assert cli(stopped, "rekey", *state, "--new-master-key", new).returncode == 78
    assert cli(stopped, "rekey", *state, "--master-key", new, "--remove-master-key").returncode == 78
    done = cli(stopped, "rekey", *state, "--new-master-key", new, NOCTUARY_MASTER_KEY=old)
    assert done.returncode == 0 and "opens with that master key from now on" in done.stdout
    assert "not the one" in refused(stopped, "--master-key", old)
    stopped.start("--master-key", new)
    assert texts(stopped) == wanted
    remember(stopped)
    assert stopped.stop() == 0
    assert cli(stopped, "rekey", *state, "--master-key", new, "--remove-master-key").returncode == 0
    stopped.start()
    assert len(texts(stopped)) == 4 and stopped.audit()["findings"] == []
    assert stopped.stop() == 0


@pytest.mark.parametrize(
    "words",
    [(), ("--new-master-key", "FILE", "--remove-master-key"), ("--new-master-key",), ("--new-master-key", "FILE", "x")],
)
def test_wrong_words_are_no_change(stopped: DaemonProcess, short_dir: Path, words: tuple[str, ...]) -> None:
    path = str(key_file(short_dir, "old"))
    given = [path if word == "FILE" else word for word in words]
    done = cli(stopped, "rekey", "--state", str(stopped.state), *given)
    assert done.returncode == 2 and not stopped.state.exists()


def test_what_takes_the_key_and_what_does_not(stopped: DaemonProcess, short_dir: Path) -> None:
    old = str(key_file(short_dir, "old"))
    wanted = written(stopped, "--master-key", old, count=5)
    state = ("--state", str(stopped.state))
    before = stopped.files()
    assert cli(stopped, "audit", *state, "--rebuild").returncode == 0
    assert cli(stopped, "audit", *state, "--master-key", old).returncode == 0
    assert cli(stopped, "audit", *state, "--master-key", str(key_file(short_dir, "new"))).returncode == 78
    for level in ("skeleton", "sealed"):
        done = cli(stopped, "export", *state, "--level", level)
        assert done.returncode == 0 and TEXT not in done.stdout
    out = short_dir / "store.ndjson"
    done = cli(stopped, "export", *state, "--out", str(out))
    assert done.returncode == 78 and not out.exists() and "--master-key" in done.stderr
    assert cli(stopped, "export", *state, "--out", str(out), "--master-key", old).returncode == 0
    assert stopped.files() == before
    assert cli(stopped, "rebuild", *state).returncode == 0
    other = DaemonProcess(short_dir, "other")
    other.state = short_dir / "imported"
    done = cli(other, "import", "--format", "frames", str(out), "--state", str(other.state), "--master-key", old)
    assert done.returncode == 0, done.stderr
    try:
        assert "none was given" in refused(other)
        other.start("--master-key", old)
        assert texts(other) == wanted
        assert other.stop() == 0
    finally:
        other.close()


def test_a_backup_of_a_running_daemon_is_restored_with_the_key(stopped: DaemonProcess, short_dir: Path) -> None:
    old, new = (str(key_file(short_dir, name)) for name in ("old", "new"))
    stopped.start("--master-key", old)
    remember(stopped, 5)
    wanted = texts(stopped)
    done = stopped.command("backup", str(short_dir / "backup"))
    assert done.returncode == 0 and json.loads(done.stdout)["vault"]["master_key"] is True
    assert stopped.stop() == 0
    state = ("--state", str(stopped.state))
    assert cli(stopped, "rekey", *state, "--master-key", old, "--new-master-key", new).returncode == 0
    other = DaemonProcess(short_dir, "other")
    other.state = short_dir / "restored"
    words = ("restore", str(short_dir / "backup"), "--state", str(other.state))
    for wrong in ((), ("--master-key", new)):
        done = cli(other, *words, *wrong)
        assert done.returncode == 78 and not other.state.exists()
    assert cli(other, *words, "--master-key", old).returncode == 0
    try:
        other.start("--master-key", old)
        assert texts(other) == wanted
        assert other.stop() == 0
    finally:
        other.close()


def test_after_a_kill_and_without_projections_it_comes_up_and_reads(stopped: DaemonProcess, short_dir: Path) -> None:
    """The walk and the fold are children's work, which have no key; thousands of keys are wrapped ahead meanwhile."""
    old = str(key_file(short_dir, "old"))
    stopped.start("--master-key", old)
    for _ in range(10):
        remember(stopped, 1000)
    stopped.kill()
    for path in sorted((stopped.state / "projections").iterdir()):
        path.unlink()
    stopped.start("--master-key", old, "--check")
    assert len(texts(stopped)) == 10_000
    assert stopped.call("rebuild")["rebuilt"] and stopped.audit()["findings"] == []
    assert stopped.stop() == 0


def test_the_key_is_nowhere_but_in_its_file(stopped: DaemonProcess, short_dir: Path) -> None:
    (short_dir / "keys").mkdir()
    old, new = (str(key_file(short_dir / "keys", name)) for name in ("old", "new"))
    stopped.start("--master-key", old)
    remember(stopped, 3)
    process = Path("/proc", str(stopped.pid))
    shown: list[Any] = (
        [process.joinpath(name).read_bytes() for name in ("cmdline", "environ")] if not os.geteuid() else []
    )
    shown += [json.dumps(stopped.call(verb)).encode() for verb in ("status", "metrics", "hello", "audit")]
    assert stopped.stop() == 0
    state = ("--state", str(stopped.state))
    for words in (
        ("rekey", *state, "--master-key", old, "--new-master-key", new),
        ("config", "--master-key", new),
        ("export", *state, "--master-key", old),
    ):
        done = cli(stopped, *words)
        shown.append((done.stdout + done.stderr).encode())
    shown += [stopped.logged().encode(), everything_in(stopped.state)]
    for secret in (KEYS["old"], KEYS["new"]):
        forms = (secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode())
        assert not any(form in each for form in forms for each in shown)


def test_a_start_that_is_refused_makes_no_store(stopped: DaemonProcess, short_dir: Path) -> None:
    stopped.spawn("--master-key", str(short_dir / "absent"))
    assert stopped.wait() == 78
    assert not stopped.state.exists()
    with pytest.raises(DaemonEnded, match="exit 78"):
        stopped.start("--master-key", str(short_dir))
    assert not stopped.state.exists()
