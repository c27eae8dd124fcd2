"""Commands for authors of blueprints: a new project, and the files for an editor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controlplane.cli import options
from controlplane.cli.command import Commands
from controlplane.core.errors import HeadgateError


class MissingLsp(HeadgateError):
    """The language server needs a package that is not installed. The message says which."""

    code = "missing-package"


def init(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", show_default=False)] = Path(),
    name: Annotated[
        str | None, typer.Option(help="Of the dataflow; the folder's by default.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Describe the files and tables in it, in place of the example.",
        ),
    ] = None,
) -> None:
    """Make a project: a blueprint with its schema for editors, some data, a workflow for CI.
    Overwrites nothing."""
    from controlplane.core.blueprint import text_forms
    from controlplane.services.editor import project_files

    options.session(ctx)
    if name is not None and (fault := text_forms.name(name)):
        raise typer.BadParameter(f"--name: {fault.message} ({fault.hint})")
    chosen = name or project_files.name_for(source or folder)
    made = project_files.project_files(chosen)
    if source is not None:
        from controlplane.services.editor import folder_blueprint

        blueprints = folder / "blueprints"
        shown = project_files.relative(source, blueprints)
        text = folder_blueprint.blueprint_of(source.absolute(), chosen, shown)
        made = project_files.described(chosen, text)
    project_files.write_new(folder, made)
    sys.stdout.write("".join(f"{folder / path}\n" for path in made))
    sys.stderr.write(f"next: headgate run {folder / 'blueprints' / f'{chosen}.yaml'}\n")


def schema(
    ctx: typer.Context,
    vscode: Annotated[
        Path | None,
        typer.Option(
            "--vscode",
            metavar="DIR",
            help="Write it, and snippets, into DIR/.vscode; overwrites both.",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of blueprints, for editors."""
    from controlplane.services.editor import project_files

    options.session(ctx)
    if vscode is None:
        sys.stdout.write(project_files.schema_text())
        return
    project_files.write(vscode, project_files.editor_files())
    sys.stdout.write("".join(f"{vscode / path}\n" for path in project_files.editor_files()))


def lsp(
    ctx: typer.Context,
    home: options.Home = None,
    branch: options.Branch = "main",
) -> None:
    """Serve editors on standard input and output (LSP): problems, hover, definitions, completion.
    Needs headgate[lsp]."""
    session = options.session(ctx)
    try:
        from controlplane.services.editor import language_server
    except ImportError as error:
        raise MissingLsp(
            f"the language server needs pygls: pip install 'headgate[lsp]' ({error})"
        ) from error

    language_server.serve(lambda: session.connect_if_there(home), branch)


COMMANDS: Commands = {"init": init, "schema": schema, "lsp": lsp}
