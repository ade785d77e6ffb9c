"""How long the τ explorer takes from a slider's change to the new images, in headless Chromium.

    python benchmarks/explorer.py [--changes 60]

For each model the key → is pressed on the slider for the strength, again and again, on a desktop's
screen. The clock runs from the event's own time stamp to after the frame in which the new images are
painted. It is read twice: as the page does it, where parts that are off the screen wait, and with all
parts computed each time (both views, codes, other images, all applications of τ). The aim is 50 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book" / "_ext"))

import export_explorer
import tvae_explorer

CHROMIUM = Path("/usr/bin/chromium")
AIM = 50  # milliseconds

WATCH = """
() => {
  const explorer = TauExplorer.mounts[0];
  window.times = [];
  explorer.strength.input.addEventListener("input", (event) => requestAnimationFrame(() => {
    // a message is delivered after the frame in which the images are painted
    const channel = new MessageChannel();
    channel.port1.onmessage = () => times.push(performance.now() - event.timeStamp);
    channel.port2.postMessage(0);
  }));
}
"""


ALL = "() => { TauExplorer.mounts[0].hidden = { has: () => false, add() {}, delete() {} }; }"
WARM = 5  # first changes that are not counted: the compiler has to warm up


def measure(page: Page, changes: int) -> list[float]:
    """Milliseconds from a change to the new images, for each of so many changes."""
    page.get_by_label("Strength").fill("-1")
    page.wait_for_function("() => times.length > 0")
    page.evaluate("() => { times.length = 0; }")
    page.get_by_label("Strength").focus()
    for count in range(changes + WARM):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"() => times.length > {count}")
    found: list[float] = page.evaluate("() => times")
    return found[WARM:]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time the τ explorer.")
    parser.add_argument("--changes", type=int, default=60, help="of the slider, for each model")
    changes = parser.parse_args(arguments).changes
    if not CHROMIUM.exists():
        print("Chromium is not there: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name, sync_playwright() as tools:
        folder = Path(name)
        export_explorer.export(folder / "_explorer")
        page_file = folder / "page.html"
        mount = '<div class="tau-explorer" data-form="full"></div>'
        page_file.write_text(
            f'<!DOCTYPE html><meta charset="utf-8">{tvae_explorer.fill(mount, "_explorer")}',
            encoding="utf-8",
        )
        browser = tools.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        print(f"milliseconds, median and 95th percentile; the aim is {AIM}")
        print(f"  {'':20} as the page does it      all parts")
        for model in export_explorer.MODELS:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{page_file.as_uri()}#model={model}")
            page.wait_for_function("() => window.TauExplorer?.mounts[0]?.results", timeout=60_000)
            page.evaluate(WATCH)
            line = f"  {model:20}"
            for before in (None, ALL):
                if before:
                    page.evaluate(before)
                times = measure(page, changes)
                line += (
                    f" {statistics.median(times):9.0f} {statistics.quantiles(times, n=20)[-1]:6.0f}"
                )
            page.close()
            print(line, flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
