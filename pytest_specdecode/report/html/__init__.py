"""``--spec-html``: one self-contained page, made from the plain data of ``--spec-json``.

No script, no font, no request: all that the page shows is in the file. What comes from a run is escaped.
"""

from __future__ import annotations

from .page import render_html

__all__ = ["render_html"]
