"""How the pages in Markdown become a site: `make docs`. Its search needs neither a server nor the
internet."""

from __future__ import annotations

project = "Headgate"
author = "the Headgate authors"
extensions = ["myst_parser", "sphinx_copybutton"]
# The sources are read from the root of the repository, so that a link means the same here and in a
# code browser.
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md"]
root_doc = "docs/index"
html_extra_path = ["site"]
html_theme = "furo"
html_title = "Headgate"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4  # links to headings are written as GitHub makes them
copybutton_exclude = ".linenos, .gp, .go"
nitpicky = True  # with -W, a link that leads nowhere fails the build
