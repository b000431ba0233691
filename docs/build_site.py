"""What mkdocs asks when it builds the site (`make docs`), and llms.txt: `python docs/build_site.py`; with --check, compare only.

The site has the pages of the navigation in mkdocs.yml at the places that they have in the repository, so that their links lead to the
same files; a file that is no page is copied if a page links it. The pages of the commands and of the Python API are generated, and no files of
the repository. A link to a Markdown file that is not on the site becomes plain text. Beside each page is its Markdown, for programs.

Owns: which files the site has, and llms.txt. Must never: change what a page says.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LLMS = ROOT / "llms.txt"
GENERATED = {"docs/reference/cli.md": "write_commands.py", "docs/reference/python.md": "write_api.py"}
"""The pages that are no files, and what writes them."""
_FENCED = re.compile(r"^( *)(```.*?^ *```)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^ *<!--.*?-->\n?", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^( *)<!-- file: (\S+) -->\n( *```\w+)$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
_NO_PROSE = re.compile(r"^(Status|Date): |; do not edit\.$")
_SENTENCE = re.compile(r".*?[^.][.:](?= |$)", re.DOTALL)


class Place(NamedTuple):
    """A page of the navigation: its file, and the headings that it is below."""

    path: str
    headings: tuple[str, ...]


# --- the navigation


def expanded(entry: Any) -> Any:
    """An entry of the navigation, with the files that its patterns match."""
    if isinstance(entry, dict):
        return {name: expanded(inner) for name, inner in entry.items()}
    if isinstance(entry, list):
        return [found for inner in entry for found in _matches(inner)]
    return entry


def _matches(entry: Any) -> list[Any]:
    if isinstance(entry, str) and "*" in entry:
        return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(entry))
    return [expanded(entry)]


def places(entry: Any, headings: tuple[str, ...] = ()) -> Iterator[Place]:
    """The pages of an expanded navigation, in its order."""
    if isinstance(entry, str):
        yield Place(entry, headings)
    elif isinstance(entry, list):
        for inner in entry:
            yield from places(inner, headings)
    else:
        for name, inner in entry.items():
            yield from places(inner, headings if isinstance(inner, str) else (*headings, name))


def navigation() -> list[Place]:
    """The pages of the site."""
    return list(places(expanded(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])))


# --- what a page says


def shown(markdown: str) -> str:
    """A page without the comments for its tests."""
    parts = _FENCED.split(markdown)
    return "".join(_COMMENT.sub("", part) if number % 3 == 0 else part for number, part in enumerate(parts))


def text_of(path: str) -> str:
    """The Markdown of a page: a file of the repository, or what is generated for it."""
    if path not in GENERATED:
        return (ROOT / path).read_text("utf-8")
    page: str = runpy.run_path(str(ROOT / "docs" / GENERATED[path]))["reference"]()
    return page


def without_links_off_site(markdown: str, path: str, pages: Container[str]) -> str:
    """A page in which links to Markdown files that are no pages of the site are plain text."""

    def shown_link(link: re.Match[str]) -> str:
        target = ((ROOT / path).parent / link[2].partition("#")[0]).resolve()
        off_site = target.suffix == ".md" and target.is_relative_to(ROOT) and "://" not in link[2]
        return link[1] if off_site and target.relative_to(ROOT).as_posix() not in pages else link[0]

    parts = _FENCED.split(markdown)
    return "".join(_LINK.sub(shown_link, part) if number % 3 == 0 else part for number, part in enumerate(parts))


def linked(path: str) -> set[Path]:
    """The files of the repository that a page links."""
    prose = _FENCED.sub("", text_of(path))
    targets = {link.partition("#")[0] for _, link in _LINK.findall(prose) if "://" not in link}
    return {((ROOT / path).parent / target).resolve() for target in targets if target}


def heading_of(markdown: str) -> str:
    """The heading of a page, as text."""
    return _plain(markdown.partition("\n")[0].removeprefix("# "))


def first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph below the heading, as text."""
    for block in re.split(r"\n\s*\n", _FENCED.sub("", shown(markdown))):
        text = _plain(" ".join(block.split()))
        if re.match(r"[\w`\"“(\[]", block) and not _NO_PROSE.search(text):
            sentence = _SENTENCE.match(text)
            return (sentence[0] if sentence else text).rstrip(":")
    return ""


def _plain(text: str) -> str:
    return _LINK.sub(lambda link: link[1], text).replace("**", "").strip()


# --- llms.txt


def llms() -> str:
    """What a program reads first: each page of the navigation with its address and its first sentence."""
    home, *pages = navigation()
    text = (ROOT / home.path).read_text("utf-8")
    parts = [f"# {heading_of(text)}\n\n> {first_sentence(text)}\n"]
    kind = ""
    for page in sorted(pages, key=lambda page: page.headings[0] == "Home"):
        if page.headings[0] != kind:
            kind = page.headings[0]
            parts.append(f"\n## {'Project' if kind == 'Home' else kind}\n\n")
        text = text_of(page.path)
        says = first_sentence(text)
        parts.append(f"- [{heading_of(text)}]({page.path}){says and ': '}{says}\n")
    return "".join(parts)


def llms_full() -> str:
    """All pages in the order of the navigation."""
    pages = [(place.path, text_of(place.path)) for place in navigation()]
    return "\n".join(f"<!-- {path} -->\n\n{shown(text)}" for path, text in pages)


# --- what mkdocs calls


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand the navigation, name headings as GitHub does, and let Pygments find the colours of `.aex`."""
    from pygments.lexers import LEXERS  # here and below: comes with mkdocs-material, which llms.txt does not need
    from pymdownx.slugs import slugify

    sys.path.append(str(Path(__file__).parent))
    LEXERS["AexLexer"] = ("aex_lexer", "AEX", ("aex",), (), ())
    config.nav = expanded(config.nav)
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of the navigation, what they link, and the style sheet, instead of the files of a folder."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    pages = [place.path for place in places(config.nav)]
    copied = {path for page in pages for path in linked(page) if path.is_file() and path.suffix != ".md"}
    names = [*pages, *config.extra_css, *sorted(path.relative_to(ROOT).as_posix() for path in copied)]
    for name in names:
        if name in GENERATED:
            files.append(File.generated(config, name, content=text_of(name)))
        else:
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """A page without comments. The name of a file becomes the title of its block; the search leaves out decisions."""
    if page.file.src_uri.startswith("docs/adr/"):
        page.meta["search"] = {"exclude": True}
    pages = {place.path for place in places(config.nav)}
    markdown = without_links_off_site(markdown, page.file.src_uri, pages)
    return shown(_FILE.sub(r'\1\3 title="\2"', markdown))


def on_post_build(config: MkDocsConfig) -> None:
    """Write what programs read: the Markdown of each page, llms.txt and llms-full.txt."""
    site = Path(config.site_dir)
    for place in places(config.nav):
        (site / place.path).write_text(shown(text_of(place.path)), encoding="utf-8")
    (site / "llms.txt").write_text(llms(), encoding="utf-8")
    (site / "llms-full.txt").write_text(llms_full(), encoding="utf-8")


def main() -> int:
    """Write llms.txt; with --check, return 1 if it is not current."""
    if "--check" not in sys.argv[1:]:
        LLMS.write_text(llms(), encoding="utf-8")
    elif not LLMS.exists() or LLMS.read_text("utf-8") != llms():
        print("not current: llms.txt; run python docs/build_site.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
