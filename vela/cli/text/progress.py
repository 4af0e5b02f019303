"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["no_progress", "progress_bar"]

Advance = Callable[[int], None]  # called after each sent message, with the bytes that it took in the source


@contextmanager
def no_progress() -> Iterator[Advance]:
    """Show no bar: nobody would see it, or the user is typing messages."""
    yield lambda _: None


@contextmanager
def progress_bar(size_bytes: int | None) -> Iterator[Advance]:
    """Show messages, bytes of the source and the time left. Without a known size, only count."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[sent]:,} messages"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size_bytes, sent=0)
        sent = 0

        def advance(read_bytes: int) -> None:
            nonlocal sent
            sent += 1
            progress.update(task, advance=read_bytes, sent=sent)

        yield advance
