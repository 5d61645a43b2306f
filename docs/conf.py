"""The documentation site: `make docs` builds it from the pages in this folder, without the network."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import bouncy

os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")  # the PyMC example is compiled by numba, and needs no C compiler

HERE = Path(__file__).parent
# Markdown files outside of this folder, and the pages that include them.
PAGES = {
    "benchmarks/README": "benchmarks",
    "benchmarks/results/results": "benchmark-results",
    "benchmarks/results/peers": "peer-results",
    "CONTRIBUTING": "contributing",
    "CHANGELOG": "changelog",
}
# A bar that is not inside of `code`.
BAR = re.compile(r"\|(?=(?:[^`]*`[^`]*`)*[^`]*$)")

project = "bouncy"
author = "The bouncy developers"
copyright = author
release = version = bouncy.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax and its fonts as files of the site, so that formulas need no network
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery"]
templates_path = ["_templates"]
default_role = "py:obj"
highlight_language = "none"
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", "(?s).*"),  # `code` in docstrings becomes a link where it names something public
    ("py:class", r"(?!bouncy\.[A-Z]).*"),  # types of other packages, and internal ones
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
numpydoc_show_class_members = False

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "write_computation_times": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("bouncy",),
    "reference_url": {"bouncy": None},
    "backreferences_dir": None,
    "show_memory": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "bouncy"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": [], "theory": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "bouncy", "image_light": "_static/favicon.svg", "image_dark": "_static/favicon.svg"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _call_by_public_names() -> None:
    """Let every public class and function say that it is of the module that users import it from."""
    for module in (bouncy, bouncy.plots, bouncy.testing, bouncy.piecewise, bouncy.experiments):
        for name in module.__all__:
            part = getattr(module, name)
            if inspect.isclass(part) or inspect.isfunction(part):
                part.__module__ = module.__name__


def _show_arguments_of_steps() -> None:
    """Let the PyMC step say what it takes: PyMC makes steps by a `__new__` that takes anything."""
    step = bouncy.pymc.BouncyBinary
    _, *arguments = inspect.signature(step.__init__).parameters.values()
    step.__signature__ = inspect.Signature(arguments)


def _link_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Lead links to Markdown files outside of this folder to the pages that include them."""
    for link in doctree.findall(addnodes.pending_xref):
        page = PAGES.get(os.path.relpath(link["reftarget"], HERE.parent) if link["reftype"] == "myst" else "")
        if page:
            link["reftarget"] = page


def _public_bases(app: Sphinx, name: str, part: type, options: object, bases: list[type]) -> None:
    """Show the nearest base that is public in place of each that is not."""
    known = [base for base in bases if isinstance(base, type)]  # generic aliases are left out
    bases[:] = dict.fromkeys(next(b for b in base.__mro__ if "._" not in b.__module__) for base in known or [object])


def _keep_bars(app: Sphinx, what: str, name: str, part: object, options: object, lines: list[str]) -> None:
    """Escape the bars of absolute values, which are substitutions in reStructuredText."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else BAR.sub(r"\\|", line) for line in lines]


def setup(app: Sphinx) -> None:
    _call_by_public_names()
    _show_arguments_of_steps()
    app.connect("autodoc-process-docstring", _keep_bars)
    app.connect("autodoc-process-bases", _public_bases)
    app.connect("doctree-read", _link_pages)
