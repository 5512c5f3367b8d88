"""The command line."""

from __future__ import annotations

import errno
import io
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from evictable.ci.commands import judging, lasting, looking, measuring, proving, speaking
from evictable.ci.commands.shared import EXIT_CODES
from evictable.specs.errors import LawlessDifference, UsageError


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="evictable", prog_name="evictable")
def cli() -> None:
    """Is a block evictable exactly when nobody uses it? Judge a KV-cache offload manager against a reference model."""


for _command in (
    judging.check,
    judging.replay,
    judging.workload,
    judging.matrix,
    lasting.fuzz,
    proving.prove,
    proving.mutants,
    proving.schedules,
    lasting.soak,
    looking.shrink,
    looking.show,
    looking.explain,
    looking.laws,
    looking.export,
    speaking.oracle,
    speaking.golden,
    speaking.fetch,
    measuring.bench,
    measuring.bench_monitor,
):
    cli.add_command(_command)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Bad input is one line on standard error and exit code 2."""
    from evictable.ci.jobs import Inconclusive

    # `timeout` and CI systems end a run so: what was found must not be lost, nor a process be left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        # Half a surrogate pair in what a subject said, or a terminal with few letters, must not hide the verdict.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=arguments, prog_name="evictable", standalone_mode=False)
    except UsageError as error:
        click.echo(f"evictable: {error}", err=True)
        code = 2
    except Inconclusive as error:
        click.echo(f"evictable: {error}", err=True)
        code = 3
    except LawlessDifference as error:
        click.echo(f"evictable: {error.line}", err=True)
        code = 3
    except click.ClickException as error:
        click.echo(f"evictable: {error.format_message()} (try --help)", err=True)
        code = 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("evictable: interrupted", err=True)
        code = 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            # Standard output cannot be written; nor can it by the interpreter's own last flush.
            sys.stdout = None
            click.echo(f"evictable: the output cannot be written ({error.strerror}); give it another place", err=True)
            code = 2
        else:
            # A fault of this program is no broken law of the subject.
            traceback.print_exc()
            code = 3
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
