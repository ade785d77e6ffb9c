"""The τ explorer: what is exported, and what a real browser makes of it.

The pages here are bare ones with a mount each; `test_browser.py` looks at the explorer's page of the
rendered site, as at every other page. The first tests need no browser.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import importlib.util
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import export_explorer
import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import tvae
from tvae.transforms import Parameters, Triplets, get_family, homographies, warp

pytestmark = pytest.mark.slow

CHROMIUM = Path("/usr/bin/chromium")
needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium"
)
LIMIT = 10e6  # bytes of a first visit
IMAGES = 20
PIXEL = 1e-3  # by which a pixel may differ from PyTorch's


@pytest.fixture(scope="module")
def extension(root: Path) -> ModuleType:
    path = root / "book" / "_ext" / "tvae_explorer.py"
    specification = importlib.util.spec_from_file_location("tvae_explorer", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, extension: ModuleType, one_thread: None) -> Path:
    """The exported files, and a page for each form."""
    folder = tmp_path_factory.mktemp("site")
    export_explorer.export(folder / "_explorer")
    (folder / "book").mkdir()
    mounts = {
        "full": '<div class="tau-explorer" data-form="full"></div>',
        "compact": '<div class="tau-explorer" data-form="compact"></div>',
        "figures": '<div class="tau-plane" data-form="A"></div><div class="tau-plane" data-form="M">'
        '</div><div class="tau-strength" data-form="triplet"></div>',
        "charts": '<div class="tau-anchors" data-form="mnist"></div>'
        '<div class="tau-walk" data-form="mnist"></div>',
    }
    for name, mount in mounts.items():
        (folder / "book" / f"{name}.html").write_text(
            '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
            f'<title>τ</title></head><body style="margin: 16px">'
            f"{extension.fill(mount, '../_explorer')}</body></html>",
            encoding="utf-8",
        )
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def desk(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def phone(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    yield context
    context.close()


EXPLORER = "() => window.TauExplorer?.mounts[0]?.results"
FIGURES = "() => window.TauFigures?.length === 3 && TauFigures.every((f) => f.text?.textContent)"
CHARTS = FIGURES.replace("3", "2")


def opened(context: BrowserContext, url: str, ready: str = EXPLORER) -> Page:
    """A page whose figures are ready; errors and requests that leave it fail the test at once."""
    page = context.new_page()
    seen: list[str] = []
    page.on("console", lambda m: seen.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("requestfailed", lambda request: seen.append(f"failed: {request.url}"))
    page.on(
        "request",
        lambda request: (
            seen.append(f"leaves the page: {request.url}")
            if not request.url.startswith((url.split("book/")[0], "data:", "blob:"))
            else None
        ),
    )
    page.goto(url)
    page.wait_for_function(ready, timeout=60_000)
    page.seen = seen  # type: ignore[attr-defined]
    assert seen == []
    return page


def state(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("() => TauExplorer.mounts[0].state")
    return found


def settled(page: Page, expression: str) -> None:
    """Wait until the state is as wanted and shown, then see that nothing went wrong meanwhile."""
    page.wait_for_function(
        f"() => {{ const s = TauExplorer.mounts[0].state; return {expression}; }}"
    )
    page.wait_for_function("() => TauExplorer.mounts[0].frame == null")
    assert page.seen == []  # type: ignore[attr-defined]


def result(page: Page, name: str) -> torch.Tensor:
    return torch.tensor(page.evaluate(f"() => [...TauExplorer.mounts[0].results.{name}]"))


# ---- What is exported


def test_library_is_the_one_that_was_published(root: Path) -> None:
    folder = root / "book" / "_explorer" / "vendor"
    listed = dict(
        re.findall(r"\| `([^`]+)` \|.*`([0-9a-f]{64})`", (folder / "README.md").read_text())
    )
    assert set(listed) == {p.name for p in folder.iterdir()} - {"README.md", "LICENSE"}
    for name, checksum in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == checksum, name


def test_first_visit_is_small(site: Path) -> None:
    """Everything but the models and images that are loaded when they are chosen."""
    first = export_explorer.MODELS[0]
    later = [f"models/{name}.js" for name in export_explorer.MODELS[1:]]
    later.append("images/fashion-mnist.js")
    files = [p for p in (site / "_explorer").rglob("*") if p.is_file()]
    assert (site / "_explorer" / "models" / f"{first}.js") in files
    kept = [p for p in files if p.relative_to(site / "_explorer").as_posix() not in later]
    assert len(files) - len(kept) == len(later)
    assert sum(p.stat().st_size for p in kept) < LIMIT


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ValueError, match="mnist-VAE-25 is none"):
        export_explorer.describe("mnist-VAE-25")
    with pytest.raises(ValueError, match="no images for omniglot-A-25"):
        export_explorer.label("omniglot-A-25")
    with pytest.raises(ValueError, match="cannot run a layer"):
        export_explorer.layer(torch.nn.BatchNorm2d(3), export_explorer.Weights())
    with pytest.raises(ValueError, match="half precision"):
        export_explorer.Weights().add(torch.tensor([1.0001]))


def test_images_are_the_first_of_each_class() -> None:
    images, labels, classes = export_explorer.selection("mnist")
    assert labels == list(range(10)) * export_explorer.PER_CLASS
    assert classes == tuple("0123456789")
    data = tvae.data.load("mnist", "test", source="embedded")
    assert torch.equal(images[7], data.images[data.labels == 7][0, 0])


def test_only_pages_with_a_mount_get_the_script(extension: ModuleType) -> None:
    assert extension.fill("<p>tau-explorer</p>", "x") == "<p>tau-explorer</p>"
    filled = extension.fill('<div class="tau-explorer" data-form="compact"></div>', "../e")
    assert 'src="../e/explorer.js"' in filled and "../e/stills/explorer-compact.png" in filled
    assert "<noscript>" in filled and "JavaScript is off" in filled
    assert "figures.js" not in filled
    plane = extension.fill('<div class="tau-plane" data-form="M"></div>', "../e")
    assert "figures.js" in plane and "explorer.js" not in plane
    for wrong in ("", ' data-form="large"'):
        with pytest.raises(ValueError, match="no live figure"):
            extension.fill(f'<div class="tau-explorer"{wrong}></div>', "x")


# ---- The mathematics, compared with the package


@needs_chromium
@pytest.mark.parametrize("name", export_explorer.MODELS)
def test_models_agree_with_pytorch(browser: Browser, site: Path, name: str) -> None:
    model = tvae.pretrained(name)
    pixels, _, _ = export_explorer.selection(export_explorer.label(name)[0])
    x0 = pixels[:IMAGES, None].float() / 255
    # every kind that the models were trained on, at many strengths
    draws = tvae.generator(0, "explorer")
    _, x1, x2, _ = Triplets(interpolation="bicubic")(x0, draws)
    with torch.no_grad():
        z0 = model.encode(x0)[0]
        z, tau = model.infer(x1, x2)
        there, back = model.act(z, tau), model.act_inverse(z, tau)
        borrowed = model.act(z0, tau[:1])
        decoded = model.decode(torch.cat([z0, z, there, back, borrowed]))
    page = browser.new_page()
    page.goto((site / "book" / "full.html").as_uri() + f"#model={name}")
    page.wait_for_function(EXPLORER, timeout=60_000)
    found = page.evaluate(
        """([x0, x1, x2]) => {
          const model = TauExplorer.mounts[0].model, d = model.d;
          const [z0, z1, z2] = [x0, x1, x2].map((x) => model.encode(Float32Array.from(x)));
          const out = { name: model.name, z0: [...z0], z: [], tau: [], there: [], back: [] };
          for (let k = 0; k < z0.length; k += d) {
            const { z, tau } = model.posterior(z1.subarray(k, k + d), z2.subarray(k, k + d));
            out.z.push(...z);
            out.tau.push(...tau);
            out.there.push(...model.act(z, tau));
            out.back.push(...model.act(z, tau, -1));
          }
          const first = Float32Array.from(out.tau.slice(0, model.tauSize));
          out.borrowed = [...model.act(z0, first)];
          const all = [z0, out.z, out.there, out.back, out.borrowed].map((v) => [...v]).flat();
          out.decoded = [...model.decode(Float32Array.from(all))];
          return out;
        }""",
        [x.flatten().tolist() for x in (x0, x1, x2)],
    )
    page.close()
    assert found["name"] == name
    wanted = {
        "z0": z0, "z": z, "tau": tau, "there": there, "back": back, "borrowed": borrowed,
        "decoded": decoded,
    }  # fmt: skip
    for key, value in wanted.items():
        difference = (torch.tensor(found[key]) - value.flatten()).abs().max()
        assert difference < PIXEL, f"{name}: {key} differs by {difference:.1e}"


def values(family: str, strength: float, direction: int) -> list[float]:
    """The parameters in the package's order of what the page calls direction and strength."""
    v = strength * export_explorer.strongest(family)
    if family == "rotation":
        return [v]
    if family in ("tilt", "shear"):
        return [v, float(direction)]
    if family == "translation":
        return [v, 0.0] if direction == 0 else [0.0, v]
    return [[v, v], [v, 0.0], [0.0, v]][direction]


@needs_chromium
def test_warps_agree_with_the_package(desk: BrowserContext, site: Path) -> None:
    page = opened(desk, (site / "book" / "full.html").as_uri())
    pixels, _, _ = export_explorer.selection("mnist")
    x = pixels[:IMAGES, None].float() / 255
    directions = page.evaluate(
        "() => Object.entries(TauEngine.families).map(([n, f]) => [n, f.directions.length])"
    )
    assert [name for name, _ in directions] == list(export_explorer.FAMILIES)
    for family, count in directions:
        for direction in range(count):
            for strength in (-1.0, -0.37, 0.0, 0.5, 1.0):
                given = torch.tensor([values(family, strength, direction)], dtype=torch.float64)
                matrix = homographies(family, given, 28, 28)
                inverse = homographies(family, get_family(family).inverse(given), 28, 28)
                found = page.evaluate(
                    """([family, strength, direction, x]) => {
                      const v = strength * TauExplorer.mounts[0].catalogue.most[family];
                      const { families, warp, power } = TauEngine;
                      const [m, back] = [v, -v].map((s) => families[family].matrix(s, direction));
                      const images = [];
                      for (let k = 0; k < x.length; k += 784)
                        images.push(...warp(Float32Array.from(x.slice(k, k + 784)), m));
                      return { m, back, cubed: power(m, 3), images };
                    }""",
                    [family, strength, direction, x.flatten().tolist()],
                )
                case = f"{family} {strength} {direction}"
                for key, wanted in (
                    ("m", matrix), ("back", inverse), ("cubed", matrix @ matrix @ matrix),
                ):  # fmt: skip
                    assert torch.allclose(
                        torch.tensor(found[key], dtype=torch.float64), wanted.flatten(), atol=1e-9
                    ), f"{case}: {key}"
                truth = warp(x, matrix.expand(len(x), 3, 3), "bicubic")
                difference = (torch.tensor(found["images"]) - truth.flatten()).abs().max()
                assert difference < PIXEL, f"{case}: differs by {difference:.1e}"


@needs_chromium
def test_the_page_shows_what_the_package_computes(desk: BrowserContext, site: Path) -> None:
    """End to end: a state in the address, the views, codes and τ that the page then holds."""
    chosen = "#model=mnist-T-25&image=23&family=shear&direction=1&strength=-0.6"
    page = opened(desk, (site / "book" / "full.html").as_uri() + chosen)
    model = tvae.pretrained("mnist-T-25")
    pixels, _, _ = export_explorer.selection("mnist")
    given = Parameters.of("shear", [values("shear", -0.6, 1)])
    batch = Triplets(interpolation="bicubic").replay(pixels[23:24, None].float() / 255, given)
    with torch.no_grad():
        z, tau = model.infer(batch.x1, batch.x2)
    wanted = {"x0": batch.x0, "x1": batch.x1, "x2": batch.x2, "z": z, "tau": tau}
    for name, value in wanted.items():
        assert torch.allclose(result(page, name), value.flatten(), atol=PIXEL), name
    shown = page.evaluate(
        """() => [...document.querySelector(".tau-x1 canvas").getContext("2d")
          .getImageData(0, 0, 28, 28).data].filter((_, k) => k % 4 === 0)"""
    )
    assert (torch.tensor(shown) / 255 - batch.x1.flatten()).abs().max() < 0.51 / 255 + PIXEL


# ---- By hand: mouse, finger, keyboard


def place(page: Page, selector: str, x: float, y: float) -> tuple[float, float]:
    """A point of an element, given in fractions of its size."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    assert box
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


SEVEN = [(0.25, 0.2), (0.75, 0.2), (0.45, 0.85)]


@needs_chromium
@pytest.mark.parametrize("form", ["full", "compact"])
@pytest.mark.parametrize("way", ["file", "http"])
def test_with_the_mouse(
    desk: BrowserContext, site: Path, address: str, form: str, way: str
) -> None:
    start = address if way == "http" else site.as_uri() + "/"
    page = opened(desk, f"{start}book/{form}.html")
    # pick
    page.get_by_role("button", name="Image 4: the digit 3").click()
    settled(page, "s.image === 3 && s.ink === null")
    page.get_by_role("button", name="Ten others").click()
    settled(page, "s.image === 13")
    # draw
    page.get_by_role("button", name="Draw one").click()
    page.mouse.move(*place(page, ".tau-pad", *SEVEN[0]))
    page.mouse.down()
    for point in SEVEN[1:]:
        page.mouse.move(*place(page, ".tau-pad", *point), steps=5)
    page.mouse.up()
    settled(page, "s.ink !== null")
    drawn = result(page, "x0").view(28, 28)
    rows, columns = (torch.nonzero(drawn.amax(d)).flatten() for d in (1, 0))
    extent = max(int(rows[-1] - rows[0]), int(columns[-1] - columns[0])) + 1
    assert 19 <= extent <= 22, "as large as MNIST's digits"
    middle = torch.arange(28) + 0.5
    mass = drawn.sum()
    assert abs(float((drawn.sum(1) * middle).sum() / mass) - 14) < 0.6
    assert abs(float((drawn.sum(0) * middle).sum() / mass) - 14) < 0.6
    page.get_by_role("button", name="Done").click()
    # turn: from the right to the upper right is counter-clockwise
    page.get_by_label("Strength").fill("0")
    settled(page, "s.strength === 0")
    assert torch.equal(result(page, "x1"), result(page, "x0"))
    page.mouse.move(*place(page, ".tau-x1 canvas", 0.9, 0.5))
    page.mouse.down()
    page.mouse.move(*place(page, ".tau-x1 canvas", 0.87, 0.36), steps=4)
    page.mouse.up()
    settled(page, "s.strength > 0.5 && s.strength < 0.95")
    turned = state(page)["strength"]
    truth = Triplets(interpolation="bicubic").replay(
        result(page, "x0").view(1, 1, 28, 28), Parameters.of("rotation", [25 * turned])
    )
    assert torch.allclose(result(page, "x1"), truth.x1.flatten(), atol=PIXEL)
    assert torch.allclose(result(page, "x2"), truth.x2.flatten(), atol=PIXEL)
    # x2 turns the other way
    page.mouse.move(*place(page, ".tau-x2 canvas", 0.9, 0.5))
    page.mouse.down()
    page.mouse.move(*place(page, ".tau-x2 canvas", 0.87, 0.36), steps=4)
    page.mouse.up()
    settled(page, f"s.strength < {turned} - 0.5")


@needs_chromium
@pytest.mark.parametrize("form", ["full", "compact"])
def test_with_a_finger(phone: BrowserContext, site: Path, form: str) -> None:
    page = opened(phone, (site / "book" / f"{form}.html").as_uri())
    fingers = phone.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        at = [{"x": x, "y": y} for x, y in points]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    def drag(selector: str, path: list[tuple[float, float]]) -> None:
        touch("touchStart", place(page, selector, *path[0]))
        for point in path[1:]:
            touch("touchMove", place(page, selector, *point))
        touch("touchEnd")

    page.get_by_role("button", name="Draw one").tap()
    drag(".tau-pad", SEVEN)
    settled(page, "s.ink !== null")
    assert float(result(page, "x0").sum()) > 20
    before = state(page)["strength"]
    drag(".tau-x1 canvas", [(0.9, 0.5), (0.9, 0.6), (0.85, 0.7)])
    settled(page, f"s.strength < {before}")
    assert page.evaluate("() => scrollX") == 0
    page.get_by_label("tilt").tap()
    settled(page, "s.family === 'tilt'")
    page.get_by_role("button", name="Image 1: the digit 0").tap()
    settled(page, "s.image === 0 && s.ink === null")


def focused(page: Page) -> str:
    """What the keyboard is at, in words."""
    name: str = page.evaluate(
        """() => { const e = document.activeElement;
          return e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent; }"""
    )
    return name.strip()


def tab_to(page: Page, name: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page).startswith(name):
            return
    raise AssertionError(f"the tabulator does not lead to {name!r}")


@needs_chromium
def test_with_the_keyboard(desk: BrowserContext, site: Path) -> None:
    page = opened(desk, (site / "book" / "full.html").as_uri())
    tab_to(page, "Image 2: the digit 1")
    page.keyboard.press("Enter")
    settled(page, "s.image === 1")
    tab_to(page, "Draw one")
    page.keyboard.press("Enter")
    assert focused(page).startswith("Drawing pad"), "the pad takes the focus"
    page.keyboard.press("Space")
    for _ in range(6):
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Space")
    settled(page, "s.ink !== null")
    column = result(page, "x0").view(28, 28).sum(0)
    assert int(column.argmax()) in (13, 14), "a vertical stroke in the middle"
    tab_to(page, "Model")
    page.keyboard.press("ArrowDown")
    settled(page, "s.model === 'mnist-M-26' && TauExplorer.mounts[0].model.name === 'mnist-M-26'")
    tab_to(page, "rotation")
    page.keyboard.press("ArrowRight")
    settled(page, "s.family === 'tilt'")
    tab_to(page, "Direction")
    page.keyboard.press("ArrowDown")
    settled(page, "s.direction === 1")
    tab_to(page, "Strength")
    before = state(page)["strength"]
    page.keyboard.press("ArrowLeft")
    settled(page, f"Math.abs(s.strength - {before} + 0.01) < 1e-6")
    for name, key in (("How often", "k"), ("From x₂", "between"), ("From z₀", "mix")):
        tab_to(page, name)
        page.keyboard.press("Home")
        settled(page, f"s.{key} === {-1 if key == 'between' else 0}")
    tab_to(page, "Start over")
    page.keyboard.press("Enter")
    settled(page, "s.model === 'mnist-A-25' && s.ink === null && s.k === 1")


@needs_chromium
@pytest.mark.parametrize("form", ["full", "compact"])
def test_every_control_has_a_label_and_can_be_reached(
    desk: BrowserContext, site: Path, form: str
) -> None:
    page = opened(desk, (site / "book" / f"{form}.html").as_uri())
    page.get_by_role("button", name="Draw one").click()
    page.evaluate("() => { document.activeElement.blur(); }")
    page.evaluate(
        """() => {
          window.controls = [...document.querySelectorAll(
            ".tau-explorer :is(button, select, input, a, [tabindex])")]
            .filter((e) => e.checkVisibility());
          window.reached = new Set();
          document.addEventListener("focusin", (e) => reached.add(e.target));
        }"""
    )
    nameless = page.evaluate(
        """() => controls.filter((e) => !(e.getAttribute("aria-label") || e.labels?.length ||
          e.textContent.trim())).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    for _ in range(page.evaluate("() => controls.length") + 5):
        page.keyboard.press("Tab")
    missed = page.evaluate(
        """() => controls.filter((e) => !reached.has(e) &&
          !(e.type === "radio" && [...reached].some((r) => r.name === e.name)))
          .map((e) => e.outerHTML)"""
    )
    assert missed == [], "of radio buttons the tabulator visits one, arrows the others"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll(".tau-explorer canvas")].filter((e) =>
          !e.getAttribute("aria-label") && e.getAttribute("aria-hidden") !== "true").length"""
    )
    assert unnamed == 0, "every image is described"


# ---- The rest of the page


@needs_chromium
def test_the_address_holds_the_state(desk: BrowserContext, site: Path) -> None:
    start = (site / "book" / "full.html").as_uri()
    page = opened(desk, start)
    page.get_by_role("button", name="Draw one").click()
    page.mouse.move(*place(page, ".tau-pad", *SEVEN[0]))
    page.mouse.down()
    page.mouse.move(*place(page, ".tau-pad", *SEVEN[2]), steps=5)
    page.mouse.up()
    page.get_by_label("shear").check()
    page.get_by_label("How often").fill("3")
    settled(page, "s.k === 3")
    page.wait_for_function("() => location.hash.includes('k=3')")
    again = opened(desk, page.url)
    assert state(again) == state(page)
    assert torch.equal(result(again, "tau"), result(page, "tau"))
    # a new address in the same page is followed, and nonsense in it is left out
    again.evaluate("() => { location.hash = 'family=scale&strength=9&model=none&ink=x&k=2'; }")
    settled(again, "s.family === 'scale' && s.k === 2 && s.strength === 1 && s.ink === null")
    assert state(again)["model"] == "mnist-A-25"


@needs_chromium
def test_models_are_loaded_when_chosen(desk: BrowserContext, site: Path, address: str) -> None:
    page = desk.new_page()
    loaded: list[str] = []
    page.on("response", lambda answer: loaded.append(answer.url.removeprefix(address)))
    page.goto(f"{address}book/full.html")
    page.wait_for_function(EXPLORER)
    assert [u for u in loaded if "models/" in u] == ["_explorer/models/mnist-A-25.js"]
    assert [u for u in loaded if "images/" in u] == ["_explorer/images/mnist.js"]
    page.get_by_label("Model", exact=True).select_option("fashion-mnist-A-25")
    page.wait_for_function("() => TauExplorer.mounts[0].model.name === 'fashion-mnist-A-25'")
    assert "_explorer/images/fashion-mnist.js" in loaded
    assert page.get_by_role("button", name="Image 9: Bag").count() == 1


@needs_chromium
def test_a_model_that_does_not_come_is_reported(desk: BrowserContext, address: str) -> None:
    page = desk.new_page()
    page.route("**/models/mnist-M-26.js", lambda route: route.abort())
    page.goto(f"{address}book/full.html")
    page.wait_for_function(EXPLORER)
    page.get_by_label("Model", exact=True).select_option("mnist-M-26")
    page.get_by_text("The file models/mnist-M-26.js could not be loaded.").wait_for()
    assert state(page)["model"] == "mnist-A-25"
    assert page.get_by_label("Model", exact=True).input_value() == "mnist-A-25"
    page.get_by_label("shear").check()
    page.wait_for_function("() => TauExplorer.mounts[0].state.family === 'shear'")


@needs_chromium
@pytest.mark.parametrize(
    "form, count", [("full", 1), ("compact", 1), ("figures", 3), ("charts", 2)]
)
def test_without_javascript_there_is_a_still_image(
    browser: Browser, site: Path, form: str, count: int
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "book" / f"{form}.html").as_uri())
    stills = page.locator("img.tau-still").all()
    assert len(stills) == count
    for still, said in zip(stills, page.locator("noscript p").all(), strict=True):
        box = still.bounding_box()
        assert box and box["width"] > 300 and box["height"] > 150
        assert len(still.get_attribute("alt") or "") > 40
        assert said.is_visible() and "JavaScript is off" in said.inner_text()
    context.close()


@needs_chromium
@pytest.mark.parametrize("form", ["full", "compact"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(browser: Browser, site: Path, form: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = opened(context, (site / "book" / f"{form}.html").as_uri())
    page.get_by_role("button", name="Draw one").click()
    wide = page.evaluate(
        """() => [...document.querySelectorAll(".tau-explorer *")].filter((e) =>
          e.getBoundingClientRect().right > document.documentElement.clientWidth)
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    assert not page.locator("img.tau-still").is_visible()
    context.close()


# ---- The small figures


@needs_chromium
def test_planes_show_the_best_z_and_tau(desk: BrowserContext, site: Path) -> None:
    """Moved by mouse and keyboard; what is shown has the least C1 + C2 among its neighbours."""
    page = opened(desk, (site / "book" / "figures.html").as_uri(), FIGURES)
    draws = tvae.generator(0, "planes")
    for number, letter in enumerate("AM"):
        action = tvae.actions.build(letter, 2)
        plane = f".tau-plane[data-form={letter}]"
        x, y = place(page, f"{plane} .tau-z1 .tau-touch", 0.5, 0.5)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 25, steps=4)
        page.mouse.up()
        page.locator(f"{plane} .tau-z2").focus()
        for key in ("ArrowUp", "ArrowRight", "ArrowUp"):
            page.keyboard.press(key)
        found = page.evaluate(
            f"() => ({{ ...TauFigures[{number}].points, ...TauFigures[{number}].solution }})"
        )
        z1, z2, z, tau = (
            torch.tensor([found[k]], dtype=torch.float64) for k in ("z1", "z2", "z", "tau")
        )
        assert torch.allclose(z2, torch.tensor([[2.2, 1.1]], dtype=torch.float64)), "three keys"
        assert float(z1[0, 0]) > 0, "the mouse has moved z1"

        def cost(
            z: torch.Tensor,
            tau: torch.Tensor,
            action: Any = action,
            z1: torch.Tensor = z1,
            z2: torch.Tensor = z2,
        ) -> torch.Tensor:
            first = (z1 - action.act(z, tau)).square().sum(1)
            return first + (z2 - action.act_inverse(z, tau)).square().sum(1)

        least = float(cost(z, tau))
        assert abs(least - found["cost"]) < 1e-9
        near = [0.1 * torch.randn(2000, v.shape[1], generator=draws).double() for v in (z, tau)]
        assert float(cost(z + near[0], tau + near[1]).min()) >= least
        assert found["cost"] == 0 if letter == "A" else found["cost"] > 0.01
    assert page.seen == []  # type: ignore[attr-defined]


@needs_chromium
def test_strength_shows_what_the_way_back_leaves(phone: BrowserContext, site: Path) -> None:
    page = opened(phone, (site / "book" / "figures.html").as_uri(), FIGURES)
    for family, zooms in (
        ("rotation", (1.766, 1.766)),
        ("shear", (2.150, 2.150)),
        ("tilt", (1, 3)),
    ):
        page.get_by_label("Transformation f").select_option(family)
        page.get_by_label("Strength").fill("1")
        page.wait_for_function(f"() => TauFigures[2].state.family === '{family}'")
        found = page.evaluate("() => TauFigures[2].zoom")
        assert torch.allclose(torch.tensor(found), torch.tensor(zooms), atol=1e-3), family
    page.get_by_role("button", name="Another digit").tap()
    page.wait_for_function("() => TauFigures[2].state.image === 6")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert page.seen == []  # type: ignore[attr-defined]


def test_charts_hold_what_was_measured() -> None:
    """The exported numbers against the ledger's folder, and the words of the stills against them."""
    folder = tvae.runs.ledger.folder()
    lines = [t for t in (folder / "sample_efficiency.csv").read_text().splitlines() if t[0] != "#"]
    found = export_explorer.anchors()
    chart = {line["name"]: line for line in found["datasets"]["mnist"]["lines"]}
    for name, row in (("pixels", "pixels"), ("Nᴿ", "mnist-NR-25"), ("M", "mnist-M-26")):
        values = [float(t.split(",")[3]) for t in lines if t.startswith(f"{row},1000,")]
        assert len(values) == 20
        place = found["anchors"].index(1000)
        assert abs(chart[name]["accuracy"][place] - sum(values) / 20) < 1e-4
    m, pixels = chart["M"]["accuracy"], chart["pixels"]["accuracy"]
    assert pixels[0] < m[0] and pixels[-1] > max(c["accuracy"][-1] for c in chart.values()) - 1e-9
    # the T-VAEs go along lines of equal sum, the others across: by the paths' second halves
    paths = export_explorer.walk()
    assert {line["name"] for line in paths["datasets"]["mnist"]["lines"]} >= {"A", "VAE", "VAE+"}
    for line in paths["datasets"]["mnist"]["lines"]:
        nll, kl = (torch.tensor(line[key]).diff()[9:] for key in ("nll", "kl"))
        along = float((nll - kl).abs().sum() / (nll + kl).abs().sum())
        assert len(line["nll"]) == paths["epochs"] and (along > 3) == ("VAE" not in line["name"])


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_charts_follow_their_sliders(browser: Browser, site: Path, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = opened(context, (site / "book" / "charts.html").as_uri(), CHARTS)
    anchors, walk = export_explorer.anchors(), export_explorer.walk()
    # by keyboard: from 1,000 to 2,000 labelled images
    page.get_by_role("slider", name="Labelled images").focus()
    page.keyboard.press("ArrowRight")
    line = next(c for c in anchors["datasets"]["mnist"]["lines"] if c["name"] == "M")
    place = anchors["anchors"].index(2000)
    row = page.locator(".tau-anchors tr", has_text="M").first.inner_text()
    assert f"{line['accuracy'][place]:.3f}" in row
    text = page.locator(".tau-anchors [role=status].tau-note")
    assert text.inner_text().startswith("With 2,000 labelled images, M is right most often")
    # as many as the pixels are said to need do bring them as far
    needed = page.evaluate("() => TauFigures[0].needed")
    pixels = next(c for c in anchors["datasets"]["mnist"]["lines"] if c["name"] == "pixels")
    after = next(k for k, n in enumerate(anchors["anchors"]) if n >= needed)
    assert pixels["accuracy"][after - 1] <= line["accuracy"][place] <= pixels["accuracy"][after]
    page.get_by_role("slider", name="Labelled images").fill("11")
    assert "nothing here beats the raw pixels" in text.inner_text()
    page.locator(".tau-anchors select").select_option("fashion-mnist")
    assert page.locator(".tau-anchors tbody tr").count() == len(
        anchors["datasets"]["fashion-mnist"]["lines"]
    )
    # the epoch; a nat is equally long on both axes
    page.get_by_role("slider", name="Epoch").fill("12")
    a = next(c for c in walk["datasets"]["mnist"]["lines"] if c["name"] == "A")
    row = page.locator(".tau-walk tbody tr").first.inner_text()
    assert row.split() == [
        "A",
        *(f"{v:.1f}" for v in (a["nll"][11], a["kl"][11], a["nll"][11] + a["kl"][11])),
    ]
    level = page.locator(".tau-walk .tau-level").first
    run, rise = (
        abs(float(level.get_attribute(f"{k}2") or 0) - float(level.get_attribute(f"{k}1") or 0))
        for k in "xy"
    )
    assert abs(run - rise) < 0.02 * run
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.seen == []  # type: ignore[attr-defined]
    context.close()


# ---- What the page says


def slopes(name: str, family: str) -> dict[str, tuple[float, float]]:
    """How far τ moves the page's images, as a share of what it was read off, and the mean zoom.

    The value of a decoded image is that of the transformed copy, with any zoom, that it correlates
    with best. Three τ: the image's own, that of the image of the same class ten places before, and
    that of another class.
    """
    model = tvae.pretrained(name)
    pixels, _, _ = export_explorer.selection(export_explorer.label(name)[0])
    x = pixels[:, None].float() / 255
    axis = [] if family == "rotation" else [0.0]

    def turned(value: float, zoom: float | None = None) -> torch.Tensor:
        matrix = homographies(family, torch.tensor([[value, *axis]], dtype=torch.float64), 28, 28)
        if zoom is not None:
            enlarged = torch.linalg.det(matrix) ** -0.5  # what the family itself enlarges by
            logs = (zoom / enlarged).log().expand(1, 2)
            matrix = matrix @ homographies("scale", logs, 28, 28)
        return warp(x, matrix.expand(len(x), 3, 3), "bicubic")

    def normal(images: torch.Tensor) -> torch.Tensor:
        centred = images.flatten(1) - images.flatten(1).mean(1, keepdim=True)
        return centred / centred.norm(dim=1, keepdim=True)

    grid = [(v, 0.9 * 1.1**k) for v in range(-40, 41, 4) for k in range(6)]
    copies = torch.stack([normal(turned(float(v), zoom)) for v, zoom in grid], 1)
    table = torch.tensor(grid)
    place = torch.arange(len(x))
    lenders = {
        "own": place,
        "same": (place - 10) % len(x),
        "other": (place // 10 * 10 - 10) % len(x) + (place % 10 + 3) % 10,
    }
    true = torch.tensor([-20.0, -12.0, 12.0, 20.0])
    read: dict[str, list[torch.Tensor]] = {key: [] for key in lenders}
    with torch.no_grad():
        z0 = model.encode(x)[0]
        for value in true.tolist():
            z, tau = model.infer(turned(value), turned(-value))
            for key, lender in lenders.items():
                moved = model.decode(model.act(z if key == "own" else z0, tau[lender]))
                best = (copies @ normal(moved)[:, :, None])[:, :, 0].argmax(1)
                read[key].append(table[best])
    found = {}
    for key, rows in read.items():
        both = torch.stack(rows, 1)  # image, strength, (value, zoom)
        slope = (both[..., 0] * true).sum() / (true.square().sum() * len(x))
        found[key] = (float(slope), float(both[..., 1].mean()))
    return found


def test_what_the_page_says_about_tau_is_so(one_thread: None) -> None:
    rotation, shear = slopes("mnist-A-25", "rotation"), slopes("mnist-A-25", "shear")
    assert rotation["own"][0] > 0.8, "almost as far"
    assert 0.15 < rotation["other"][0] < 0.35, "about a quarter"
    assert rotation["same"][0] > 0.5, "more than half"
    assert 0.65 < shear["other"][0] < 0.85, "about three quarters"
    assert rotation["own"][1] < 1.1 < slopes("mnist-NR-25", "rotation")["own"][1], "enlarges"
    assert abs(slopes("fashion-mnist-A-25", "rotation")["other"][0]) < 0.15, "lost altogether"


def test_what_the_page_says_about_codes_is_so(one_thread: None) -> None:
    images, _, _ = export_explorer.selection("mnist")
    x = images[:, None].float() / 255
    batch = Triplets(interpolation="bicubic").replay(x, Parameters.of("rotation", [20.0] * len(x)))
    with torch.no_grad():
        for name, low, high in (("A", 2, 99), ("M", 0.999, 1.001), ("T", 2, 1e6)):
            model = tvae.pretrained(f"mnist-{name}-{26 if name == 'M' else 25}")
            z, tau = model.infer(batch.x1, batch.x2)
            code = z
            for _ in range(8):
                code = model.act(code, tau)
            growth = (code.norm(dim=1) / z.norm(dim=1)).median()
            assert low < float(growth) < high, f"{name}: {growth:.2f} times as long"
            # ink grows with the square of the zoom: half-way is larger than x0, z is not
            half = model.decode((model.encode(batch.x1)[0] + model.encode(batch.x2)[0]) / 2)
            assert float(half.sum() / model.decode(model.encode(x)[0]).sum()) > 1.2
            assert float(model.decode(z).sum() / x.sum()) < 1.1
