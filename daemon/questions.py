"""The questions of one connection that aren't answered yet, by request id.

A client may use an id again while it waits for it: both are answered, and a `cancel` of that id means both. Progress
notes go out on the loop's thread, in order, and never behind the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from daemon.asking import NOBODY, Asking
from daemon.wire.answer import encode_notification
from daemon.wire.request import Request, RequestId

if TYPE_CHECKING:
    from daemon.hosting import Host


class Question:
    """One of them. It is open until its answer is on its way."""

    __slots__ = ("asking", "id", "open")

    def __init__(self, request_id: RequestId) -> None:
        self.id = request_id
        self.asking: Asking = NOBODY
        self.open = True


class Questions:
    """All of one connection. For the loop's thread."""

    def __init__(self) -> None:
        self._open: dict[RequestId, list[Question]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, request: Request, host: Host, note: Callable[[bytes], None]) -> Question:
        """A new one. `note` gets the lines of its progress, if its caller asked for that."""
        question = Question(request.id)
        told = getattr(request.params, "progress", None) is True
        question.asking = host.asking(partial(_tell, question, host, note) if told else None)
        self._open.setdefault(question.id, []).append(question)
        return question

    def end(self, question: Question) -> None:
        """It is answered."""
        question.open = False
        same = self._open[question.id]
        same.remove(question)
        if not same:
            del self._open[question.id]

    def cancel(self, request_id: RequestId) -> bool:
        """Have the questions of that id end at their next step; whether there was one."""
        found = self._open.get(request_id, ())
        for question in found:
            question.asking.cancel()
        return bool(found)

    def cancel_all(self) -> None:
        """Nobody waits for them any more."""
        for same in self._open.values():
            for question in same:
                question.asking.cancel()


def _tell(question: Question, host: Host, note: Callable[[bytes], None], phase: str, done: int, of: int) -> None:
    """On the thread of the work."""
    host.cross(partial(_note, question, note, phase, done, of))


def _note(question: Question, note: Callable[[bytes], None], phase: str, done: int, of: int) -> None:
    if question.open:
        note(encode_notification("progress", question.id, done=done, of=of, phase=phase))
