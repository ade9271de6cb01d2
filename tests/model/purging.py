"""What a purge is to take, said once more and simply: sets of names, and rules repeated until none of them acts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Memory:
    """`sources` are those it was made from, `quotes` those whose words it has, `before` what it revises, whose `topic`
    it has."""

    name: str
    text: str
    session: str | None = None
    sources: frozenset[str] = frozenset()
    quotes: frozenset[str] = frozenset()
    before: str | None = None
    topic: str | None = None
    purged: bool = False
    held: bool = False
    forgotten: bool = False


@dataclass
class Store:
    memories: dict[str, Memory] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    def grounds(self, name: str) -> frozenset[str]:
        """Its sources, else those of the version before it."""
        memory = self.memories[name]
        if memory.sources or memory.before is None:
            return memory.sources
        return self.grounds(memory.before)

    def taken(self, named: set[str], cascade: str) -> set[str]:
        """All that is reached, purged or not."""
        reached = set(named)
        while True:
            gone = reached | {name for name, memory in self.memories.items() if memory.purged}
            more = {name for name in self.memories if self._goes(name, reached, gone, cascade)}
            if more <= reached:
                return reached
            reached |= more

    def _goes(self, name: str, reached: set[str], gone: set[str], cascade: str) -> bool:
        memory = self.memories[name]
        if memory.quotes & reached:
            return True
        grounds = self.grounds(name)
        if cascade == "derived":
            return bool(grounds & reached)
        if cascade == "ungrounded":
            return bool(grounds & reached) and grounds <= gone
        if cascade == "versions":
            after = {other.name for other in self.memories.values() if other.before == name}
            return memory.before in reached or bool(after & reached)
        return False

    def purge(self, named: set[str], cascade: str, block: bool) -> set[str] | None:
        """Those that go; None: something of it is held, and nothing happens."""
        going = {name for name in self.taken(named, cascade) if not self.memories[name].purged}
        if any(self.memories[name].held for name in going):
            return None
        for name in going:
            self.memories[name].purged = True
            if block:
                self.blocked.add(self.memories[name].text)
        return going

    def readable(self) -> set[str]:
        """The texts that may be there: a text that a living memory shares stays, as its own or as its topic."""
        living = [memory for memory in self.memories.values() if not memory.purged]
        return {memory.text for memory in living} | {memory.topic for memory in living if memory.topic is not None}

    def named_sessions(self) -> set[str]:
        """The sessions that keep their key."""
        return {memory.session for memory in self.memories.values() if memory.session and not memory.purged}
