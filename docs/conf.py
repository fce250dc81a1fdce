"""Sphinx: pages in Markdown (MyST); ``_ext/specdecode_reference.py`` fills reference pages from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from pytest_specdecode import __version__

project = "pytest-specdecode"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "specdecode_reference"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "pytest-specdecode"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
smartquotes = False  # they turn "--" in commands into a dash
default_role = "code"
