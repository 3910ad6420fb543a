"""HTML as a test reads it: elements that nest, their text, and scripts apart."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "wbr"}


class HtmlPage(HTMLParser):
    """Every element in order, with its attributes and the text directly or indirectly in it; all of them nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.text = ""
        self._open: list[tuple[str, list[str]]] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text: list[str] = []
        self.elements.append((tag, dict(attrs), text))
        if tag not in VOID:
            self._open.append((tag, text))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, text in self._open:
            text.append(data)
        if not self._open or self._open[-1][0] != "script":
            self.text += data

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """The text of each such element."""
        return [
            " ".join("".join(text).split())
            for name, given, text in self.elements
            if name == tag and all(given.get(key.strip("_")) == value for key, value in attributes.items())
        ]

    @property
    def scripts(self) -> list[str]:
        return ["".join(text) for tag, _, text in self.elements if tag == "script"]

    def policy(self) -> str:
        """The Content-Security-Policy."""
        known = (given for _, given, _ in self.elements)
        return next(str(given["content"]) for given in known if given.get("http-equiv") == "Content-Security-Policy")
