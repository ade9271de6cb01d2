"""What can happen to a file: bits, cuts, pages, strangers in its place. Each harm says what it did."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

PAGE_BYTES = 4096
VAULT_SLOT_BYTES = 64

Harm = Callable[[Path, random.Random, Path], str | None]
"""(file, chance, the same file of another store) -> what was done, None when it can't be done to it."""


def flip(path: Path, chance: random.Random, other: Path) -> str | None:
    """One bit; in the vault mostly one that is in use."""
    data = bytearray(path.read_bytes())
    if not data:
        return None
    end = len(data)
    if path.name == "vault" and chance.random() < 0.8:
        end = min(end, PAGE_BYTES + 200 * VAULT_SLOT_BYTES)
    place, bit = chance.randrange(end), chance.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {place} (page {place // PAGE_BYTES} + {place % PAGE_BYTES})"


def flip_in_head(path: Path, chance: random.Random, other: Path) -> str | None:
    """One bit in the first 160 bytes of a page: LMDB's page head, its node pointers, a meta page's fields."""
    data = bytearray(path.read_bytes())
    if not data:
        return None
    page = chance.randrange((len(data) - 1) // PAGE_BYTES + 1)
    place = min(page * PAGE_BYTES + chance.randrange(160), len(data) - 1)
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return f"byte {place} (page {page} + {place % PAGE_BYTES})"


def many_flips(path: Path, chance: random.Random, other: Path) -> str | None:
    said = [flip(path, chance, other) for _ in range(16)]
    return "; ".join(each for each in said if each) or None


def _cut(path: Path, size: int) -> str | None:
    before = path.stat().st_size
    if not before or size >= before:
        return None
    with path.open("r+b") as file:
        file.truncate(size)
    return f"{before} bytes cut to {size}"


def cut_to_nothing(path: Path, chance: random.Random, other: Path) -> str | None:
    return _cut(path, 0)


def cut_in_half(path: Path, chance: random.Random, other: Path) -> str | None:
    return _cut(path, path.stat().st_size // 2)


def cut_a_byte(path: Path, chance: random.Random, other: Path) -> str | None:
    return _cut(path, path.stat().st_size - 1)


def cut_at_a_page(path: Path, chance: random.Random, other: Path) -> str | None:
    pages = path.stat().st_size // PAGE_BYTES
    return _cut(path, chance.randrange(pages) * PAGE_BYTES) if pages else None


def _pages(path: Path, chance: random.Random, content: Callable[[int], bytes]) -> str | None:
    data = bytearray(path.read_bytes())
    if not data:
        return None
    at = chance.randrange((len(data) - 1) // PAGE_BYTES + 1) * PAGE_BYTES
    old = bytes(data[at : at + PAGE_BYTES])
    data[at : at + len(old)] = content(len(old))
    if bytes(data[at : at + PAGE_BYTES]) == old:
        return None
    path.write_bytes(data)
    return f"page {at // PAGE_BYTES}"


def zero_a_page(path: Path, chance: random.Random, other: Path) -> str | None:
    return _pages(path, chance, bytes)


def garble_a_page(path: Path, chance: random.Random, other: Path) -> str | None:
    return _pages(path, chance, chance.randbytes)


def swap_two_pages(path: Path, chance: random.Random, other: Path) -> str | None:
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE_BYTES
    if pages < 2:
        return None
    one, two = sorted(chance.sample(range(pages), 2))
    first, second = (bytes(data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]) for page in (one, two))
    if first == second:
        return None
    data[one * PAGE_BYTES : (one + 1) * PAGE_BYTES] = second
    data[two * PAGE_BYTES : (two + 1) * PAGE_BYTES] = first
    path.write_bytes(data)
    return f"pages {one} and {two}"


def copy_a_page(path: Path, chance: random.Random, other: Path) -> str | None:
    """A page that was written to the place of another: what a misdirected write leaves."""
    data = path.read_bytes()
    pages = len(data) // PAGE_BYTES
    source = chance.randrange(pages) if pages > 1 else 0
    return _pages(path, chance, lambda size: data[source * PAGE_BYTES :][:size]) if pages > 1 else None


def garble(path: Path, chance: random.Random, other: Path) -> str | None:
    path.write_bytes(chance.randbytes(max(64, path.stat().st_size)))
    return "all of it"


def take_the_other(path: Path, chance: random.Random, other: Path) -> str | None:
    if not other.exists() or other.read_bytes() == path.read_bytes():
        return None
    shutil.copyfile(other, path)
    return "that of another store"


def remove(path: Path, chance: random.Random, other: Path) -> str | None:
    path.unlink()
    return "gone"


def make_a_directory(path: Path, chance: random.Random, other: Path) -> str | None:
    path.unlink()
    path.mkdir(mode=0o700)
    return "a directory"


def make_a_link(path: Path, chance: random.Random, other: Path) -> str | None:
    """A symbolic link to the file itself, moved out of the state directory."""
    root = next(parent for parent in path.parents if parent.name == "state")
    aside = root.with_name(f"aside-{path.name}")
    path.rename(aside)
    path.symlink_to(aside)
    return "a symbolic link"


HARMS: dict[str, Harm] = {
    harm.__name__: harm
    for harm in (
        flip, flip_in_head, many_flips, cut_to_nothing, cut_in_half, cut_a_byte, cut_at_a_page, zero_a_page,
        garble_a_page, swap_two_pages, copy_a_page, garble, take_the_other, remove, make_a_directory, make_a_link,
    )
}  # fmt: skip
BY_CHANCE = (
    "flip", "flip_in_head", "many_flips", "cut_at_a_page", "zero_a_page", "garble_a_page", "swap_two_pages",
    "copy_a_page",
)  # fmt: skip
"""Those that come out differently each time."""
