"""Convert reStructuredText to Markdown, via HTML by docutils; included files are not read."""

import io
import re
from typing import Any

from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers import markup
from ragsmith.datasets.ingest.readers.part import DAMAGED, FilePart, reader
from ragsmith.text.files import TextError

_DIRECTIVE = re.compile(r"^[ \t]*\.\. (?:\|[^|\n]+\| )?([A-Za-z][\w:.+-]*)::", re.MULTILINE)
_TARGET = re.compile(r"\s*(?:<|\\x00<)[^<>]*>$")
_ROLE = re.compile(r":([A-Za-z][\w:.+-]*):`")

SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 3,
    "halt_level": 5,
    "syntax_highlight": "none",
    "initial_header_level": 2,
    "math_output": "LaTeX",
    "smart_quotes": False,
    "toc_backlinks": False,
    "sectsubtitle_xform": False,
}


@reader("RST", suffixes=(".rst",), edition=2, needs=("docutils", *markup.PACKAGES))
def read_restructured(data: bytes, name: str) -> tuple[FilePart, ...]:
    """reStructuredText as Markdown."""
    from bs4 import BeautifulSoup  # noqa: PLC0415
    from docutils.core import publish_parts  # noqa: PLC0415

    text, notes = decode_text(data)
    _register_unknown(set(_DIRECTIVE.findall(text)), set(_ROLE.findall(text)))
    try:
        parts = publish_parts(
            text, writer=_make_writer(), settings_overrides={**SETTINGS, "warning_stream": io.StringIO()}
        )
    except DAMAGED as error:
        raise TextError(
            f"is not reStructuredText that can be read ({type(error).__name__}); save it as .txt"
        ) from error
    body = BeautifulSoup(parts["html_body"], "html.parser")
    invalid = 0
    for message in body(class_="system-message"):
        source = message.find("pre")  # invalid source, such as a table with too wide cells
        invalid += source is not None
        message.replace_with(*[source] if source else [])
    for section in body(class_="system-messages"):
        section.decompose()
    if invalid:
        notes = (*notes, f"{invalid} passages are not valid reStructuredText and were not converted")
    title = " ".join(BeautifulSoup(parts["title"], "html.parser").get_text().split())  # without tags
    return (FilePart(markup.element_to_markdown(body), title=title, notes=notes),)


def _make_writer() -> Any:
    """Return an HTML writer that links pictures, as ``:loading: embed`` would insert the source of SVG files."""
    from docutils.writers import html5_polyglot  # noqa: PLC0415

    class Translator(html5_polyglot.HTMLTranslator):
        def visit_image(self, node: Any) -> None:
            node.attributes.pop("loading", None)
            super().visit_image(node)

    writer = html5_polyglot.Writer()
    writer.translator_class = Translator
    return writer


def _register_unknown(directives: set[str], roles: set[str]) -> None:
    """Register unknown directives and roles, such as those of Sphinx, so that their text is converted.

    The registry of docutils is global; only missing names are added.
    """
    from docutils import nodes  # noqa: PLC0415
    from docutils.parsers.rst import Directive  # noqa: PLC0415
    from docutils.parsers.rst.directives import _directive_registry, _directives, register_directive  # noqa: PLC0415
    from docutils.parsers.rst.roles import _role_registry, _roles, register_canonical_role  # noqa: PLC0415

    class Passthrough(Directive):
        has_content = True
        optional_arguments = 1
        final_argument_whitespace = True

        def run(self) -> list[nodes.Node]:
            found = nodes.container()
            if self.arguments:
                found += nodes.paragraph("", self.arguments[0])
            self.state.nested_parse(self.content, self.content_offset, found)
            return [found]

    def words(role: str, raw: str, text: str, *_: object, **__: object) -> tuple[list[nodes.Node], list[nodes.Node]]:
        return [nodes.inline(raw, _TARGET.sub("", text).lstrip("~!"))], []

    for name in sorted(directives):
        if name.lower() not in _directive_registry and name.lower() not in _directives:
            register_directive(name.lower(), Passthrough)
    for name in sorted(roles):
        if name.lower() not in _role_registry and name.lower() not in _roles:
            register_canonical_role(name.lower(), words)
