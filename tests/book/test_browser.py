"""The rendered site in a real browser: every page, without a network, wide, narrow and dark.

The site is rendered from the stored outputs with warnings as errors, served from this machine and
opened page by page in headless Chromium. Each page is loaded once; the tests below ask about what
was seen there.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import project
import pytest
import render
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium"),
]

# Of the theme itself, on pages without any error of ours.
KNOWN = ("THEBE_JS_URL' has already been declared", "Got invalid theme mode")

# Contrast of text with what lies behind it, as WCAG 2 defines it. Its level AA asks for 4.5; the
# colours of code tokens are the theme's, for which its 3.0 for large text is taken.
CONTRAST = """
() => {
  const parse = c => { const v = c.match(/[\\d.]+/g).map(Number);
    return {r: v[0], g: v[1], b: v[2], a: v.length > 3 ? v[3] : 1}; };
  const light = c => [c.r, c.g, c.b].map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); })
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => ({r: top.r * top.a + under.r * (1 - top.a),
    g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1});
  const known = new Map();
  const behind = e => {
    if (!e) return {r: 255, g: 255, b: 255, a: 1};
    if (!known.has(e)) {
      const c = parse(getComputedStyle(e).backgroundColor);
      known.set(e, c.a === 1 ? c : over(c, behind(e.parentElement)));
    }
    return known.get(e);
  };
  const found = [];
  const root = document.querySelector('.bd-main') || document.body;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !e.checkVisibility ||
        !e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    if (e.closest('script, style, mjx-assistive-mml, .visually-hidden, [aria-hidden="true"]'))
      continue;
    const ink = parse(getComputedStyle(e).color);
    for (let p = e; p; p = p.parentElement) ink.a *= Number(getComputedStyle(p).opacity);
    const ground = behind(e);
    const [a, b] = [light(over(ink, ground)), light(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const wanted = e.closest('pre, .highlight') ? 3.0 : 4.5;
    if (contrast < wanted)
      found.push(`${e.tagName}.${e.className} "${walker.currentNode.textContent.trim()
        .slice(0, 40)}" has ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)].slice(0, 5);
}
"""

WIDE = """
() => {
  const limit = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= limit) return [];
  const held = e => { for (e = e.parentElement; e; e = e.parentElement) {
    const o = getComputedStyle(e).overflowX;
    if (o !== 'visible' && e.getBoundingClientRect().right <= limit + 1) return true; }
    return false; };
  return [`${document.documentElement.scrollWidth} > ${limit}`].concat(
    [...document.querySelectorAll('body *')]
      .filter(e => e.getBoundingClientRect().right > limit + 1 && !held(e))
      .map(e => `${e.tagName}.${e.className}`).slice(0, 5));
}
"""

# What a table, an output or a formula that is too wide for its column does: with everything unfolded,
# it may neither be cut off nor stick out, but has to scroll, with a bar that is there all the time.
CUT = """
() => {
  const column = document.querySelector('.bd-article');
  if (!column) return [];
  column.querySelectorAll('details').forEach(d => d.open = true);
  const edge = column.getBoundingClientRect().right, found = [];
  for (const e of column.querySelectorAll('table, pre, img, svg, div.math, .output')) {
    if (e.closest('.tau-panel') || !e.checkVisibility()) continue;
    let box = e;
    while (box !== column && getComputedStyle(box).overflowX === 'visible') box = box.parentElement;
    const over = box === column ? e.getBoundingClientRect().right - edge
      : box.scrollWidth - box.clientWidth;
    if (over <= 1) continue;
    const style = getComputedStyle(box), lines = ['Top', 'Bottom']
      .reduce((sum, side) => sum + parseFloat(style[`border${side}Width`]), 0);
    const bar = box.offsetHeight - box.clientHeight - lines;
    if (box !== column && ['auto', 'scroll'].includes(style.overflowX) && bar > 3) continue;
    found.push(`${e.tagName}.${e.className}, ${over.toFixed(0)} pixels too wide: ` +
      e.textContent.trim().slice(0, 60));
  }
  return found.slice(0, 5);
}
"""

# Thousands of coloured words of code and of letters in formulas look like a few: of each kind one is
# left, so that axe looks at a page for a second and not for ten.
THINNED = """
() => {
  const known = new Set();
  for (const e of document.querySelectorAll('.highlight span')) {
    const kind = `${e.className} in ${e.parentElement.className}`;
    if (known.has(kind) && !e.children.length) e.replaceWith(...e.childNodes);
    known.add(kind);
  }
  document.querySelectorAll('.highlight pre').forEach(e => e.normalize());
  [...document.querySelectorAll('mjx-container')].slice(10).forEach(e => e.remove());
}
"""

PREVIEW = """
() => Object.fromEntries([...document.head.querySelectorAll('meta[content]')]
  .map(m => [m.getAttribute('property') || m.name, m.content]))
"""

THEME = """theme => { document.documentElement.dataset.mode = theme;
  document.documentElement.dataset.theme = theme; }"""


@dataclass
class Seen:
    """What was seen on one page."""

    external: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    math: int = 0
    typeset: int = 0
    math_errors: int = 0
    images: list[dict[str, Any]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    colab: list[str] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)
    wide: dict[int, list[str]] = field(default_factory=dict)
    faint: dict[str, list[str]] = field(default_factory=dict)
    themes: list[str] = field(default_factory=list)
    cut: dict[int, list[str]] = field(default_factory=dict)
    preview: dict[str, str] = field(default_factory=dict)
    folds: list[str] = field(default_factory=list)
    figures: int = 0
    barriers: dict[str, list[str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The rendered site."""
    folder = tmp_path_factory.mktemp("site")
    render.stage(root / "book", folder / "source")
    assert render.render(folder / "source", folder) == 0, "the site renders without a warning"
    return folder / "_build" / "html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(html: Path) -> Iterator[str]:
    """Where the site is served."""
    handler = functools.partial(Quiet, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def look(page: Page, address: str, name: str) -> Seen:
    """Load one page and note everything that the tests ask about."""
    seen = Seen()

    def intercept(route: Any) -> None:
        url = route.request.url
        if url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            seen.external.append(url)
            route.abort()

    def console(message: Any) -> None:
        if message.type == "error":
            seen.errors.append(message.text)

    def response(answer: Any) -> None:
        if answer.status >= 400:
            seen.failed.append(f"{answer.status} {answer.url}")

    page.route("**/*", intercept)
    page.on("console", console)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("response", response)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(address + name, wait_until="load")
    if page.evaluate("() => !!document.querySelector('script[src*=mathjax]')"):
        page.wait_for_function("() => window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("() => MathJax.startup.promise")
    seen.math = page.locator(".math").count()
    seen.typeset = page.locator(".math mjx-container").count()
    seen.math_errors = page.locator("mjx-merror, [data-mjx-error]").count()
    seen.images = page.evaluate(
        """async () => {
          const all = [...document.images];
          for (const i of all) { i.loading = 'eager'; try { await i.decode(); } catch (e) {} }
          return all.map(i => ({src: i.getAttribute('src'), alt: i.getAttribute('alt'),
            width: i.naturalWidth}));
        }"""
    )
    # not a.href: within an SVG that is an object
    seen.links = page.evaluate(
        "() => [...document.querySelectorAll('a[href]')]"
        ".map(a => new URL(a.getAttribute('href'), document.baseURI).href)"
    )
    seen.anchors = page.evaluate("() => [...document.querySelectorAll('[id]')].map(e => e.id)")
    seen.colab = [link for link in seen.links if "colab.research.google.com" in link]
    seen.downloads = [link for link in seen.links if link.endswith(".ipynb")]
    seen.preview = page.evaluate(PREVIEW)
    seen.folds = page.locator("details.tvae-setup:not([open])").all_inner_texts()
    figures = page.locator("img.tau-still").all()
    for figure in figures:  # they begin to live when they come near the screen
        figure.locator("..").scroll_into_view_if_needed()
    page.wait_for_function(
        "n => document.querySelectorAll('.tau-live').length === n", arg=len(figures)
    )
    seen.figures = len(figures)
    # colours change over time; without this the measurement could fall into the middle
    still = "*, ::before, ::after { animation: none !important; transition: none !important; }"
    page.add_style_tag(content=still)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        seen.cut[width] = page.evaluate(CUT)
        for theme in ("light", "dark"):
            page.evaluate(THEME, theme)
            seen.wide.setdefault(width, []).extend(page.evaluate(WIDE))
            if width == 1280:
                seen.faint[theme] = page.evaluate(CONTRAST)
            seen.themes.append(page.evaluate("() => getComputedStyle(document.body).color"))
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate(THINNED)
    for theme in ("light", "dark"):
        page.evaluate(THEME, theme)
        # style sheets are not fetched a second time: the one rule that asks for it is about turned phones
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if theme == "dark":  # all other rules are about what both themes share
            options["runOnly"] = ["color-contrast"]
        seen.barriers[theme] = [
            f"{v['id']} ({v['impact']}): {v['nodes'][0]['html'][:120]}"
            for v in Axe().run(page, options=options).response["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    page.close()
    return seen


@pytest.fixture(scope="module")
def visited(html: Path, address: str) -> dict[str, Seen]:
    """Every page of the site, looked at once."""
    names = sorted(p.relative_to(html).as_posix() for p in html.rglob("*.html"))
    # index.html only leads on to the first chapter, see the last test
    names = [n for n in names if not n.startswith("_static/") and n != "index.html"]
    with sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox"],
            ignore_default_args=["--hide-scrollbars"],
        )
        context = browser.new_context()
        context.set_default_timeout(300_000)  # a busy machine is no fault of the site
        found = {name: look(context.new_page(), address, name) for name in names}
        browser.close()
    return found


def problems(visited: dict[str, Seen], attribute: str) -> dict[str, Any]:
    return {n: getattr(s, attribute) for n, s in visited.items() if getattr(s, attribute)}


def test_every_chapter_has_its_page(visited: dict[str, Seen]) -> None:
    for path in project.chapters():
        assert f"book/{path.stem}.html" in visited
    for name in ("search.html", "genindex.html", "book/status.html"):
        assert name in visited


def test_no_request_leaves_the_machine(visited: dict[str, Seen]) -> None:
    assert problems(visited, "external") == {}


def test_no_request_fails(visited: dict[str, Seen]) -> None:
    assert problems(visited, "failed") == {}


def test_no_error_in_the_console(visited: dict[str, Seen]) -> None:
    unknown = {
        name: [e for e in seen.errors if not any(known in e for known in KNOWN)]
        for name, seen in visited.items()
    }
    assert {n: e for n, e in unknown.items() if e} == {}


def test_all_mathematics_is_typeset(visited: dict[str, Seen]) -> None:
    assert sum(seen.math for seen in visited.values()) > 50, "the book has mathematics"
    wrong = {n: (s.math, s.typeset) for n, s in visited.items() if s.math != s.typeset}
    assert wrong == {}
    assert problems(visited, "math_errors") == {}


def test_no_image_is_broken(visited: dict[str, Seen]) -> None:
    broken = {n: [i["src"] for i in s.images if not i["width"]] for n, s in visited.items()}
    assert {n: b for n, b in broken.items() if b} == {}


def test_every_image_has_a_real_alt_text(visited: dict[str, Seen]) -> None:
    bad: dict[str, list[str]] = {}
    for name, seen in visited.items():
        for image in seen.images:
            alt = (image["alt"] or "").strip()
            if not alt or re.search(r"\.(png|svg|jpe?g)$|^_|/", alt):
                bad.setdefault(name, []).append(f"{image['src']}: {alt!r}")
    assert bad == {}


def test_no_page_scrolls_sideways(visited: dict[str, Seen]) -> None:
    wide = {(n, w): e for n, s in visited.items() for w, e in s.wide.items() if e}
    assert wide == {}


@pytest.mark.parametrize("width", [1280, 390])
def test_what_is_too_wide_scrolls_visibly(visited: dict[str, Seen], width: int) -> None:
    assert {n: s.cut[width] for n, s in visited.items() if s.cut[width]} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier(visited: dict[str, Seen], theme: str) -> None:
    """No serious or critical violation, with all live figures alive."""
    assert {n: s.barriers[theme] for n, s in visited.items() if s.barriers[theme]} == {}
    for name in ("explorer", "01_welcome", "06_triplets", "07_additive", "08_rotations"):
        assert visited[f"book/{name}.html"].figures == 1


def test_first_cells_are_one_folded_line(visited: dict[str, Seen]) -> None:
    for path in project.chapters():
        (fold,) = visited[f"book/{path.stem}.html"].folds
        assert fold.startswith("Set-up, parameters") and "\n" not in fold.strip(), path.name


def test_every_page_has_a_preview(visited: dict[str, Seen], html: Path) -> None:
    site, said = project.site(), {}
    for name, seen in visited.items():
        shown = seen.preview
        assert shown["og:url"] == site + name
        assert shown["og:title"] and shown["og:title"] == shown["twitter:title"]
        text = shown["og:description"]
        assert text == shown["description"] == shown["twitter:description"]
        assert 40 <= len(text) <= 250 and not re.search(r"[\\${}<>]", text), (name, text)
        assert shown["twitter:card"] == "summary_large_image"
        for kind in ("og:image", "twitter:image"):
            assert (html / shown[kind].removeprefix(site)).is_file()
        said[name] = text
    chapters = [said[f"book/{path.stem}.html"] for path in project.chapters()]
    assert len(set(chapters)) == len(chapters), "each chapter has its own description"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable(visited: dict[str, Seen], theme: str) -> None:
    assert {n: s.faint[theme] for n, s in visited.items() if s.faint[theme]} == {}


def test_dark_mode_is_dark(visited: dict[str, Seen]) -> None:
    """The two themes differ, so that the test above looked at two."""
    for path in project.chapters():
        assert len(set(visited[f"book/{path.stem}.html"].themes)) == 2


def test_every_chapter_has_a_colab_button_and_a_download(visited: dict[str, Seen]) -> None:
    repository = project.address().removeprefix("https://github.com/")
    for path in project.chapters():
        seen = visited[f"book/{path.stem}.html"]
        wanted = f"https://colab.research.google.com/github/{repository}/blob/main/book/{path.name}"
        assert set(seen.colab) == {wanted}
        assert any(link.endswith(f"_sources/book/{path.name}") for link in seen.downloads)


def test_internal_links_and_anchors_resolve(
    visited: dict[str, Seen], html: Path, address: str
) -> None:
    dead: dict[str, set[str]] = {}
    for name, seen in visited.items():
        for link in seen.links:
            url, anchor = urldefrag(urljoin(address + name, link))
            if not url.startswith(address):
                assert urlparse(url).scheme in ("http", "https", "mailto"), (name, link)
                continue
            target = unquote(url.removeprefix(address)) or "index.html"
            exists = (html / target).is_file()
            if not exists or (
                anchor and target in visited and unquote(anchor) not in visited[target].anchors
            ):
                dead.setdefault(name, set()).add(link)
    assert dead == {}


def test_front_door_leads_to_the_first_chapter(html: Path, address: str) -> None:
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.wait_for_url("**/book/01_welcome.html")
        browser.close()
