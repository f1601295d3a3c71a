"""Entry point of the command line: the parser of all commands, and the exit codes."""

from __future__ import annotations

import argparse
import difflib
import io
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from ipseval._version import __version__
from ipseval.cli._about import DOCTOR
from ipseval.cli._correct import CORRECT, PLAN
from ipseval.cli._evaluate import EVALUATE, SPLIT
from ipseval.cli._fit import FIT
from ipseval.cli._options import Command
from ipseval.cli._output import print_message, show_warning, word_error
from ipseval.cli._stored import COMPARE, REPORT
from ipseval.cli._streams import (
    UnwritableOutputError,
    discard_output,
    flush_output,
    write_error,
    write_output,
    write_traceback,
)
from ipseval.cli._studies import DEMO, STUDY, VALIDATE
from ipseval.errors import IpsevalError
from ipseval.utils.peer_names import suggest_replacement

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (DEMO, EVALUATE, CORRECT, PLAN, SPLIT, FIT, VALIDATE, REPORT, COMPARE, STUDY, DOCTOR)
}
EXAMPLES = """examples:
  ipseval demo --log clicks.csv
  ipseval evaluate clicks.csv --out result.npz
  ipseval compare result.npz --model item_knn=ease"""
EXIT_CODES = """exit codes:
  0    success; of compare: better, identical, or not worse
  1    of compare: worse, or below a limit
  2    wrong input or options, with the reason on standard error
  3    of compare: suspicious, probably a leak of test data
  4    of compare: cannot tell
  5    of compare: no difference in any user, with a margin of 0
  130  interrupted
  141  the reader of the output closed it"""
ERROR = 2
INTERRUPTED = 130
CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0: success. 1, 3, 4 and 5, of `compare`: worse, suspicious, cannot tell, no difference and
        margin 0. 2: wrong input, or an error in a recommender, with the reason on standard error.
        130: interrupted. 141: the reader of the output closed it.

    See Also
    --------
    ipseval.evaluate : Evaluate recommenders from Python.

    Examples
    --------
    The command `ipseval compare evaluation.npz --model random=popular`:

    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("random", "popular")}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> with TemporaryDirectory() as folder:
    ...     evaluation.save(f"{folder}/evaluation.npz")
    ...     options = ["--model", "random=popular"]
    ...     code = main(["compare", f"{folder}/evaluation.npz", *options])
    random (was popular) by recall@10 (aoa): 0.599 -> 0.133, difference −0.466 (99.62% interval [−0.564, −0.355]),
      213 users
    False alarms in 26 comparisons: WORSE at most 0.05, suspicious at most 0.05, either at most 0.1.
    Smallest visible loss, with 80% power: 0.15. Tolerated: 0. A pass excludes a loss of 0.120, which is 20% of
      the old value.
    <BLANKLINE>
    WORSE by recall@10 (aoa)
    >>> code
    1
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = argparse.Namespace()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments), options)
    except IpsevalError as error:
        print_message(f"error: {word_error(error)}")
        return ERROR
    except BrokenPipeError:
        discard_output()
        return CLOSED_PIPE
    except UnwritableOutputError as error:
        discard_output()
        write_error(f"ipseval: error: standard output must be writable; {error}. Use --out FILE.")
        return ERROR
    except (Exception, KeyboardInterrupt) as error:
        # A compiled module that is interrupted while it loads raises an ImportError because of it.
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
            write_error("ipseval: interrupted")  # without imports, because one may be incomplete
            return INTERRUPTED
        # An error of a recommender, or of the library; exit code 1 would mean "worse".
        write_traceback()
        return ERROR


def join_values(arguments: Sequence[str]) -> list[str]:
    """Return arguments with `--metrics A B` as `--metrics A,B`, and `--models A B` as `--models A --models B`.

    A word that is the path of a file is not a label.
    """
    joined: list[str] = []
    option = ""
    n_values = 0
    for argument in arguments:
        if argument.startswith("-"):
            option = argument
            n_values = 0
            joined.append(argument)
            continue
        is_further_value = n_values > 0 and not Path(argument).exists()
        if is_further_value and option in LABEL_OPTIONS and _LABEL.fullmatch(argument):
            joined[-1] = f"{joined[-1]},{argument}"
        elif is_further_value and option in MODEL_OPTIONS:
            joined += [option, argument]
        else:
            joined.append(argument)
        n_values += 1
    return joined


def take_lists(options: argparse.Namespace, unknown: Sequence[str]) -> list[str]:
    """Take files in addition to --train and --test as recommendation lists, named by their stems; return the others.

    Without --train and --test, a file is the LOG.
    """
    has_parts = (
        getattr(options, "train", None) and getattr(options, "test", None) and hasattr(options, "model")
    )
    if not has_parts or options.log is None:
        return list(unknown)
    files = [options.log]
    other_arguments = []
    for argument in unknown:
        if Path(argument).is_file():
            files.append(argument)
        else:
            other_arguments.append(argument)

    options.log = None
    options.model = list(options.model or [])
    for file in files:
        options.model.append(f"{Path(file).stem}={file}")
    return other_arguments


def _run(arguments: list[str], options: argparse.Namespace) -> int:
    """Parse the arguments into `options`, run the command and return its exit code."""
    parser = build_parser()
    if not arguments:
        write_error(parser.format_help().rstrip("\n"))
        return ERROR
    _, unknown = parser.parse_known_args(join_values(arguments), options)
    unknown = take_lists(options, unknown)
    if unknown:
        options.parser.refuse_unknown(unknown)
    with warnings.catch_warnings():
        warnings.showwarning = partial(show_warning, options)
        warnings.simplefilter("always", UserWarning)
        code = int(options.run(options))
    if not getattr(options, "quiet", False):
        for description in getattr(options, "read_as", ()):
            print_message(description)
    flush_output()
    return code


# Options of other programs, and the option that does the same here.
LISTS_OPTION = "--model NAME=FILE, a file of recommendation lists or an array of scores, once for each"
OTHER_PROGRAMS = {
    "recs": LISTS_OPTION,
    "recommendations": LISTS_OPTION,
    "run": LISTS_OPTION,
    "runs": LISTS_OPTION,
    "lists": LISTS_OPTION,
    "predictions": LISTS_OPTION,
    "scores": LISTS_OPTION,
    "user_factors": "--model NAME=scores.npy, an array users × items, as U @ V.T",
    "item_factors": "--model NAME=scores.npy, an array users × items, as U @ V.T",
    "qrels": "--test FILE",
    "m": "--metrics LABEL,LABEL",
    "impressions": "the file itself as LOG, with --propensity impressions",
    "html": "--out page.html",
    "json": "--format json",
    "csv": "--out table.csv",
    "latex": "--format latex",
    "random": "--random-exposure FILE of `ipseval correct`",
    "items_per_user": "--n-items",
    "users_per_item": "--n-users",
    "groups": "--by",
    "max_drop": "--margin",
    "baseline": "a stored result as the second FILE",
    "candidate": "a stored result as the first FILE",
    "random_state": "--seed",
    "random_seed": "--seed",
}

# Options in the help of a command that has more options than fit a screen.
# Commands of other programs and functions of Python, and the command that does the same here.
OTHER_COMMANDS = {
    "gate": "compare",
    "check": "compare",
    "test": "compare",
    "fit_gamma": "fit",
    "eval": "evaluate",
    "run": "evaluate",
    "score": "evaluate",
    "benchmark": "evaluate",
}
# Options whose values are lists of labels or names, which may also be separated by blanks.
LABEL_OPTIONS = ("--metrics", "--metric", "--estimators")
MODEL_OPTIONS = ("--model", "--models")
_LABEL = re.compile(r"[A-Za-z]\w*(?:\([^()]*\))?(?:@\d+)?")

COMMON = {
    "--model",
    "--metric",
    "--margin",
    "--comparisons",
    "--at-least",
    "--lenient",
    "--preflight",
    "--gamma",
    "--propensity",
    "--random-exposure",
    "--interactions",
    "--reference-values",
    "--n-users",
    "--n-items",
    "--positive-share",
    "--metrics",
    "--split",
    "--test-fraction",
    "--seed",
    "--threshold",
    "--train",
    "--test",
    "--by",
    "--out",
}
SCREEN = 40  # lines; the help with the most used options has at most 50, as examples are worth ten lines


class _HelpAll(argparse.Action):
    """Option that prints the help with all options."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        write_output(parser.format_help())
        parser.exit(0)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter that does not break labels such as power-law at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Return the help of an option in lines."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Parser with errors on one line, and with a help that fits a screen."""

    def print_help(self, file: object = None) -> None:
        """Print the help, or the most used options if all of them do not fit a screen."""
        text = self.format_help()
        if text.count("\n") > SCREEN:
            text = self._format_short_help()
        self._print_message(text, file or sys.stdout)

    def _format_short_help(self) -> str:
        """Return the help with the arguments, the most used options and the examples."""
        formatter = self._get_formatter()
        formatter.add_usage(f"%(prog)s [options]{self._format_arguments()}", self._actions, [])
        formatter.add_text(self.description)
        formatter.start_section("arguments")
        formatter.add_arguments(self._get_positional_actions())
        formatter.end_section()
        formatter.start_section("most used options")
        common_actions = []
        for action in self._actions:
            if COMMON & set(action.option_strings):
                common_actions.append(action)

        formatter.add_arguments(common_actions)
        formatter.end_section()
        formatter.add_text(self.epilog)
        note = f"`{self.prog} --help-all` lists all {len(self._actions)} options."
        return f"{formatter.format_help()}\n{note}\n"

    def _format_arguments(self) -> str:
        """Return the arguments without a dash as the usage shows them, in brackets if they are optional."""
        text = ""
        for action in self._get_positional_actions():
            name = action.metavar or action.dest
            if action.choices is not None:
                name = f"{{{','.join(action.choices)}}}"
            if action.nargs in ("?", "*"):
                name = f"[{name}]"
            text += f" {name}"
        return text

    def _print_message(self, message: str, file: object = None) -> None:
        """Write a message; argparse itself ignores a standard output that cannot be written."""
        if file is None or file is sys.stderr:
            write_error(message.rstrip("\n"))
        else:
            write_output(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the program after all output is written."""
        if message:
            write_error(message.rstrip("\n"))
        flush_output()
        sys.exit(status)

    def refuse_unknown(self, arguments: Sequence[str]) -> NoReturn:
        """End the program with an error that names unknown arguments and suggests replacements."""
        advice = ""
        for argument in arguments:
            match = re.match(r"--?([a-zA-Z][\w-]*)", argument)
            if match is not None:
                suggestion = self._suggest_option(match[1])
                if suggestion not in advice:
                    advice += suggestion
            elif not advice and Path(argument).is_file():
                advice = f" Pass recommendation lists by --model NAME={argument}."
        if self.prog.endswith("compare") and "--train" in arguments:
            advice = (
                " compare reads stored results; `ipseval evaluate --train FILE --test FILE --model a=FILE "
                "--model b=FILE` compares recommendation lists."
            )
        self.error(f"unrecognized arguments: {' '.join(arguments)}", advice)

    def error(self, message: str, advice: str = "") -> NoReturn:
        """End the program with an error."""
        command = re.match(r"argument COMMAND: invalid choice: '(.*?)'", message)
        if command is not None:
            advice = _suggest_command(command[1])
        text = f"{self.prog}: error: {message}.{advice} `{self.prog} --help` lists the options.\n"
        self.exit(ERROR, text)

    def _suggest_option(self, name: str) -> str:
        """Return the option to use in place of an unknown one, as a sentence, or ""."""
        replacement = OTHER_PROGRAMS.get(name.replace("-", "_"), "")
        if not replacement:
            replacement = _convert_to_option(suggest_replacement(name))
        if replacement:
            return f" In place of --{name}: {replacement}."
        similar = difflib.get_close_matches(f"--{name}", self._option_string_actions, n=1)
        if similar and len(name) > 2:
            return f" Did you mean {similar[0]}?"
        return ""


def _suggest_command(name: str) -> str:
    """Return the command to use in place of an unknown one, as a sentence, or ""."""
    replacement = OTHER_COMMANDS.get(name.replace("-", "_"), "")
    if not replacement and Path(name).suffix:
        return f" Name the command first, as in `ipseval evaluate {name}`; recommendation lists are --model NAME=FILE."
    if not replacement:
        similar = difflib.get_close_matches(name, COMMANDS, n=1)
        replacement = similar[0] if similar else ""
    if not replacement:
        return ""
    return f" Use `ipseval {replacement}`."


def _convert_to_option(text: str) -> str:
    """Return the argument in a suggestion for Python as an option: test_fraction= is --test-fraction."""
    match = re.search(r'\b([a-z_]+)=(?:\["|")?([\w@:=-]*)', text)
    if match is None:
        return ""
    return f"--{match[1].replace('_', '-')} {match[2]}".rstrip()


@cache
def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="ipseval",
        description="Offline evaluation of recommenders from biased implicit feedback.",
        epilog=f"`ipseval COMMAND --help` shows the options and examples of a command.\n\n{EXAMPLES}\n\n{EXIT_CODES}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ipseval {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for command in COMMANDS.values():
        subparser = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog="\n  ".join(("examples:", *command.examples)),
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        subparser.add_argument("--help-all", action=_HelpAll, nargs=0, help=argparse.SUPPRESS)
        for add_options in command.options:
            add_options(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser
