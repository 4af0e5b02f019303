"""The root of the command line: options for every command, and the commands by name."""

from __future__ import annotations

import click

from vela.cli.lazy import Lazy, LazyGroup

__all__ = ["COMMANDS", "cli"]

_MESSAGES, _LOOK, _ACT, _MANAGE, _MORE = "Messages", "Look", "Act on a subscription", "Manage", "More"
_COMMANDS = "vela.cli.commands"

COMMANDS = (
    Lazy(
        name="produce",
        where=f"{_COMMANDS}.produce:produce",
        summary="Publish messages: arguments, lines, JSON or whole files.",
        section=_MESSAGES,
    ),
    Lazy(
        name="consume",
        where=f"{_COMMANDS}.consume:consume",
        summary="Consume a subscription's messages and print them.",
        section=_MESSAGES,
    ),
    Lazy(
        name="read",
        where=f"{_COMMANDS}.read:read",
        summary="Print a topic's messages without a subscription.",
        section=_MESSAGES,
    ),
    Lazy(
        name="bench",
        where=f"{_COMMANDS}.bench:bench",
        summary="Measure publishing and consuming on a new topic.",
        section=_MESSAGES,
    ),
    Lazy(
        name="stats",
        where=f"{_COMMANDS}.stats:stats",
        summary="Show the numbers of topics and subscriptions, and keep them up to date.",
        section=_LOOK,
    ),
    Lazy(
        name="peek",
        where=f"{_COMMANDS}.reading.look:peek",
        summary="Show the next messages that a subscription has not acknowledged.",
        section=_LOOK,
    ),
    Lazy(
        name="find",
        where=f"{_COMMANDS}.reading.find:find",
        summary="Find messages of a topic by key, property, JSON value or text.",
        section=_LOOK,
    ),
    Lazy(
        name="examine",
        where=f"{_COMMANDS}.reading.look:examine",
        summary="Show one message of a topic by its place, or by its id.",
        section=_LOOK,
    ),
    Lazy(
        name="backlog",
        where=f"{_COMMANDS}.reading.look:backlog",
        summary="Show what a subscription's backlog consists of.",
        section=_LOOK,
    ),
    Lazy(
        name="why",
        where=f"{_COMMANDS}.reading.look:why",
        summary="Say why a subscription does not drain.",
        section=_LOOK,
    ),
    Lazy(
        name="consumers",
        where=f"{_COMMANDS}.reading.clients:consumers",
        summary="List the connected consumers of all topics, and what is wrong with each.",
        section=_LOOK,
    ),
    Lazy(
        name="producers",
        where=f"{_COMMANDS}.reading.clients:producers",
        summary="List the connected producers of all topics, and what is wrong with each.",
        section=_LOOK,
    ),
    Lazy(
        name="reset",
        where=f"{_COMMANDS}.cursor_acts:reset",
        summary="Put a cursor at an exact place, forward or back.",
        section=_ACT,
    ),
    Lazy(
        name="shift",
        where=f"{_COMMANDS}.cursor_acts:shift",
        summary="Move a cursor by a number of messages, forward or back.",
        section=_ACT,
    ),
    Lazy(
        name="skip",
        where=f"{_COMMANDS}.cursor_acts:skip",
        summary="Skip the next messages, or one message by its id.",
        section=_ACT,
    ),
    Lazy(
        name="clear",
        where=f"{_COMMANDS}.cursor_acts:clear",
        summary="Skip the whole backlog.",
        section=_ACT,
    ),
    Lazy(
        name="expire",
        where=f"{_COMMANDS}.cursor_acts:expire",
        summary="Skip messages older than a time, or up to a message.",
        section=_ACT,
    ),
    Lazy(
        name="pause",
        where=f"{_COMMANDS}.delivery_acts:pause",
        summary="Stop delivery until you resume it.",
        section=_ACT,
    ),
    Lazy(
        name="resume",
        where=f"{_COMMANDS}.delivery_acts:resume",
        summary="Deliver again after a pause.",
        section=_ACT,
    ),
    Lazy(
        name="disconnect",
        where=f"{_COMMANDS}.delivery_acts:disconnect",
        summary="Close a consumer. Its unacknowledged messages go to the other consumers.",
        section=_ACT,
    ),
    Lazy(
        name="redeliver",
        where=f"{_COMMANDS}.delivery_acts:redeliver",
        summary="Take back the messages that a consumer has not acknowledged and deliver them again now.",
        section=_ACT,
    ),
    Lazy(
        name="dead-letter",
        where=f"{_COMMANDS}.letters.dead_letter:dead_letter",
        summary="Copy a message to the dead-letter topic, then acknowledge it for the subscription.",
        section=_ACT,
    ),
    Lazy(
        name="redrive",
        where=f"{_COMMANDS}.letters.redrive:redrive",
        summary="Publish the messages of a dead-letter topic to their original topics.",
        section=_ACT,
    ),
    Lazy(
        name="topics",
        where=f"{_COMMANDS}.topics.topics:topics",
        summary="List, show, create, grow, end, empty, unload and delete topics.",
        section=_MANAGE,
    ),
    Lazy(
        name="compact",
        where=f"{_COMMANDS}.topics.compaction:compact",
        summary="Keep the latest message of each key for readers of the compacted topic.",
        section=_MANAGE,
    ),
    Lazy(
        name="subscriptions",
        where=f"{_COMMANDS}.subscriptions:subscriptions",
        summary="List, show, create and delete subscriptions.",
        section=_MANAGE,
    ),
    Lazy(
        name="bookmarks",
        where=f"{_COMMANDS}.topics.bookmarks:bookmarks",
        summary="List, create and delete named places in a topic.",
        section=_MANAGE,
    ),
    Lazy(
        name="namespaces",
        where=f"{_COMMANDS}.topics.namespaces:namespaces",
        summary="List, create and delete namespaces.",
        section=_MANAGE,
    ),
    Lazy(
        name="policies",
        where=f"{_COMMANDS}.topics.policies:policies",
        summary="Show and set policies of a namespace or a topic.",
        section=_MANAGE,
    ),
    Lazy(
        name="acts",
        where=f"{_COMMANDS}.acts:acts",
        summary="List, export, show, plan, apply, refuse and undo acts.",
        section=_MANAGE,
    ),
    Lazy(
        name="pipeline",
        where=f"{_COMMANDS}.pipeline:pipeline",
        summary="Run, follow, cancel and schedule jobs over stored messages.",
        section=_MANAGE,
    ),
    Lazy(
        name="alerts",
        where=f"{_COMMANDS}.alerts:alerts",
        summary="List alerts; list, create, change, silence, test and delete alert rules.",
        section=_MANAGE,
    ),
    Lazy(
        name="profile",
        where="vela.cli.profiles.command:profile",
        summary="Store addresses and credentials under a name.",
        section=_MORE,
    ),
    Lazy(
        name="completion",
        where=f"{_COMMANDS}.completion:completion",
        summary="Print the script that completes commands and names in a shell.",
        section=_MORE,
    ),
)


def _version(context: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"vela {version('vela')}")
    except PackageNotFoundError:
        click.echo("vela, from a checkout that is not installed")
    context.exit()


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--profile",
    envvar="VELA_PROFILE",
    default="",
    help="Use the addresses and credentials stored under this name (vela profile). Environment: VELA_PROFILE.",
)
@click.option(
    "--url",
    envvar="VELA_URL",
    default="ws://127.0.0.1:8080",
    show_default=True,
    help="The broker, for messages: ws://, wss://, pulsar:// or pulsar+ssl://. Environment: VELA_URL.",
)
@click.option(
    "--console-url",
    envvar="VELA_CONSOLE_URL",
    default="http://127.0.0.1:8000",
    show_default=True,
    help="The console, for acts and numbers. Environment: VELA_CONSOLE_URL.",
)
@click.option(
    "--user",
    envvar="VELA_USER",
    default="",
    help="A user of the console. The password is read from VELA_PASSWORD, or vela asks for it. Environment: VELA_USER.",
)
@click.option(
    "--token",
    envvar="VELA_TOKEN",
    default="",
    help="A token for the broker. Other users can see it: prefer --token-file. Environment: VELA_TOKEN.",
)
@click.option(
    "--token-file",
    envvar="VELA_TOKEN_FILE",
    default="",
    help="A file with a token for the broker. Environment: VELA_TOKEN_FILE.",
)
@click.option(
    "--oauth2-issuer-url",
    envvar="VELA_OAUTH2_ISSUER_URL",
    default="",
    metavar="URL",
    help="The OAuth 2.0 server from which vela gets a token for the broker. Environment: VELA_OAUTH2_ISSUER_URL.",
)
@click.option(
    "--oauth2-key-file",
    envvar="VELA_OAUTH2_KEY_FILE",
    default="",
    metavar="FILE",
    help="JSON file with the client_id and client_secret that this server knows. Environment: VELA_OAUTH2_KEY_FILE.",
)
@click.option(
    "--oauth2-audience",
    envvar="VELA_OAUTH2_AUDIENCE",
    default="",
    metavar="TEXT",
    help="The audience that the token must be for. Environment: VELA_OAUTH2_AUDIENCE.",
)
@click.option(
    "--oauth2-scope",
    envvar="VELA_OAUTH2_SCOPE",
    default="",
    metavar="TEXT",
    help="The scope to ask the OAuth 2.0 server for. Environment: VELA_OAUTH2_SCOPE.",
)
@click.option(
    "--tls-trust-file",
    envvar="VELA_CLIENT_TRUST_FILE",
    default="",
    metavar="FILE",
    help="PEM file with the only authorities to trust. Default: the system's. Environment: VELA_CLIENT_TRUST_FILE.",
)
@click.option(
    "--tls-certificate-file",
    envvar="VELA_CLIENT_CERTIFICATE_FILE",
    default="",
    metavar="FILE",
    help="PEM file with this client's certificate. Environment: VELA_CLIENT_CERTIFICATE_FILE.",
)
@click.option(
    "--tls-key-file",
    envvar="VELA_CLIENT_KEY_FILE",
    default="",
    metavar="FILE",
    help="PEM file with the private key of that certificate. Environment: VELA_CLIENT_KEY_FILE.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def cli(**_options: str) -> None:
    """Produce and consume messages, and look at and act on topics and subscriptions of a Vela broker.

    Before an act, vela shows a plan with its exact effect. It applies the act if you agree. You can undo most acts.
    """
