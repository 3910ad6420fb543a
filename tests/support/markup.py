"""Texts that would act if a page took them for markup: each sets ``window.acted`` where a browser runs it."""

from __future__ import annotations

_ACTS = "window.acted=1"

_ELEMENTS = (
    f"<script>{_ACTS}</script>",
    f"<img src=x onerror={_ACTS}>",
    f"<svg onload={_ACTS}></svg>",
    f"<svg><script>{_ACTS}</script></svg>",
    f"<iframe srcdoc='<script>parent.{_ACTS}</script>'></iframe>",
    f"<details open ontoggle={_ACTS}>",
    f"<a href='javascript:{_ACTS}' autofocus onfocus={_ACTS}>x</a>",
    f"<style>@import 'https://example.org/x.css';</style><script>{_ACTS}</script>",
    f"<body onload={_ACTS}>",
    f"<math><mtext><img src=x onerror={_ACTS}></mtext></math>",
)

_ENDS = ("", '">', "'>", "</title>", "</template>", "--></script>")
"""What ends the place that a text may stand in: an element, an attribute of either quote, text that is raw."""

PAYLOADS = tuple(f"{end}{element}" for end in _ENDS for element in _ELEMENTS)
"""Sixty of them."""
