/* What the live figures of a page share: loading when needed, small helpers, when to begin.

   Models and images are scripts that call TauExplorer.receive, since a page opened from a disk may
   load scripts but not fetch data. */
"use strict";

const TauPage = (() => {
  const BASE = new URL(".", document.currentScript.src).href;
  const MARK = "#009e73"; // of the class that τ came from

  /* ---- Loading ---- */

  const received = { backend: {}, catalogue: {}, figure: {}, images: {}, model: {} };
  const loading = new Map();

  function script(path) {
    if (!loading.has(path))
      loading.set(
        path,
        new Promise((resolve, reject) => {
          const tag = document.createElement("script");
          tag.src = BASE + path;
          tag.async = false; // side by side, but run in this order
          tag.onload = resolve;
          tag.onerror = () => {
            loading.delete(path); // another try may have more luck
            reject(new Error(`The file ${path} could not be loaded.`));
          };
          document.head.append(tag);
        }),
      );
    return loading.get(path);
  }

  let started = null;
  function library() {
    const files = ["vendor/tf-core.min.js", "vendor/tf-backend-wasm.min.js", "vendor/wasm.js", "engine.js"];
    started ??= Promise.all(files.map(script)).then(() => {
      const { base64 } = received.backend.wasm;
      delete received.backend.wasm;
      return TauEngine.start(base64);
    });
    return started;
  }

  const models = new Map();
  async function loadModel(name) {
    await Promise.all([script(`models/${name}.js`), library()]);
    if (!models.has(name)) {
      models.set(name, new TauEngine.Model(received.model[name]));
      delete received.model[name]; // seven megabytes of text that nobody needs again
    }
    return models.get(name);
  }

  const sets = new Map();
  async function loadImages(name) {
    await Promise.all([script(`images/${name}.js`), script("engine.js")]);
    if (!sets.has(name)) {
      const { labels, pixels } = received.images[name];
      sets.set(name, { labels, pixels: Float32Array.from(TauEngine.bytesOf(pixels), (v) => v / 255) });
    }
    return sets.get(name);
  }

  /* ---- Small helpers ---- */

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (key in made) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
  const signed = (v, digits) => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(digits);

  /* A transformation's value in words, in its family's own unit. */
  function amount(family, value) {
    if (family === "scale") return `× ${Math.exp(value).toFixed(2)}`;
    const digits = family === "rotation" || family === "shear" ? 0 : 1;
    return signed(value, digits) + TauEngine.families[family].unit;
  }

  /* Images side by side on one canvas, two pixels apart; lines on either side of the marked one. */
  function paint(canvas, images, marked = null) {
    const n = images.length / 784, gap = n > 1 ? 2 : 0, width = n * 28 + (n + 1) * gap;
    if (canvas.width !== width) [canvas.width, canvas.height] = [width, 28];
    const context = canvas.getContext("2d");
    const data = context.createImageData(width, 28);
    for (let i = 0; i < n; i++)
      for (let p = 0; p < 784; p++) {
        const at = 4 * (Math.floor(p / 28) * width + gap + i * (28 + gap) + (p % 28));
        data.data[at] = data.data[at + 1] = data.data[at + 2] = Math.round(255 * images[i * 784 + p]);
        data.data[at + 3] = 255;
      }
    context.putImageData(data, 0, 0);
    if (marked === null) return;
    context.fillStyle = MARK;
    for (const i of [marked, marked + 1]) context.fillRect(i * (28 + gap), 0, gap, 28);
  }

  /* Numbers as bars about a line; `groups` says how many belong together. */
  function paintBars(canvas, values, most, groups) {
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 300, height = canvas.clientHeight || 60;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    context.scale(scale, scale);
    const gap = 12, step = (width - gap * (groups.length - 1)) / values.length;
    let x = 0, n = 0;
    for (const group of groups) {
      context.fillStyle = style.getPropertyValue("--tau-line");
      context.fillRect(x, height / 2 - 0.5, group * step, 1);
      context.fillStyle = style.color;
      for (let k = 0; k < group; k++, n++, x += step) {
        const length = (clamp(values[n] / most, -1, 1) * height) / 2;
        context.fillRect(x + 0.15 * step, height / 2 - Math.max(length, 0), 0.7 * step, Math.abs(length));
      }
      x += gap;
    }
  }

  /* A labelled slider that says its value: the row to show, the input, and where the value stands. */
  function slider(id, label, low, high, step, change) {
    const output = element("output", { htmlFor: id });
    const input = element("input", {
      type: "range", id, min: low, max: high, step,
      oninput: () => change(Number(input.value)),
    });
    const row = element("div", { className: "tau-slider" }, element("label", { htmlFor: id }, label), output, input);
    const set = (value, text) => {
      input.value = value;
      output.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    return { row, input, output, set };
  }

  /* Make a figure of every mount, and start each when it comes near the screen. */
  function whenNear(selector, make) {
    const figures = new Map();
    const near = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries)
          if (isIntersecting) {
            near.unobserve(target);
            figures.get(target).start();
          }
      },
      { rootMargin: "300px" },
    );
    for (const mount of document.querySelectorAll(selector)) {
      figures.set(mount, make(mount));
      near.observe(mount);
    }
  }

  window.TauExplorer = {
    receive(kind, name, content) {
      received[kind][name] = content;
    },
  };

  return {
    BASE, received, script, loadModel, loadImages, whenNear,
    element, clamp, signed, amount, paint, paintBars, slider,
  };
})();
