"""``jdbcstore completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
        jdbcstore completion bash > /etc/bash_completion.d/jdbcstore
        source <(jdbcstore completion zsh)
    """
    root = context.find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(root, {}, "jdbcstore", "_JDBCSTORE_COMPLETE").source())
