"""`vela completion`: print the completion script for a shell."""

from __future__ import annotations

import click

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and names in a shell.

    SHELL is bash, zsh or fish. For bash put `eval "$(vela completion bash)"` into ~/.bashrc, for zsh
    `eval "$(vela completion zsh)"` into ~/.zshrc, for fish run
    `vela completion fish > ~/.config/fish/completions/vela.fish`. Completion asks the console for topics and
    subscriptions with VELA_CONSOLE_URL, VELA_USER and VELA_PASSWORD, for at most a second.
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} is not supported: use bash, zsh or fish.")
    click.echo(made(context.find_root().command, {}, "vela", "_VELA_COMPLETE").source())
