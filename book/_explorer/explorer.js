/* The τ explorer: fills every <div class="tau-explorer"> of a page.

     <div class="tau-explorer" data-form="full"></div>        everything, state in the page's address
     <div class="tau-explorer" data-form="compact"></div>     one triplet, and its τ on other images
     data-model="mnist-A-25"                                  the model to begin with

   Nothing is loaded before a mount comes near the screen; then the library, the images and one
   model. The mathematics is in engine.js, what all figures share in page.js. */
"use strict";

(() => {
  const { BASE, script, received, loadModel, loadImages, whenNear } = TauPage;
  const { element, clamp, amount, paint, paintBars, slider } = TauPage;
  const TIMES = 8; // how often τ is applied at most
  const COLUMNS = 10; // images of a row
  const mix = (a, b, t) => a.map((v, k) => (1 - t) * v + t * b[k]);

  /* ---- What is said about each action ---- */

  const TAU = {
    A: (d) => `${d} numbers that are added to a code`,
    M: (d) => `${d / 2} angles, one for each pair of numbers of a code`,
    MA: (d) => `${d / 2} angles, one for each pair of numbers of a code`,
    T: () => "a matrix with three bands: the diagonal, the one above it, the one below",
    N: (d) => `${d} numbers that a network reads beside a code`,
  };
  const BANDS = { T: (d) => [d, d - 1, d - 1] };

  /* ---- One explorer ---- */

  let count = 0;

  class Explorer {
    constructor(mount) {
      this.mount = mount;
      this.full = mount.dataset.form !== "compact";
      this.id = `tau${count++}`;
      this.status = element("p", { className: "tau-status", role: "status" });
      mount.append(this.status);
      this.hidden = new Set(); // parts that are off the screen need no new images
      this.peaks = {};
    }

    async start() {
      try {
        await Promise.all([script("catalogue.js"), script("drawing.js")]);
        this.catalogue = received.catalogue.all;
        this.state = { ...this.defaults(), ...(this.full ? this.parse(location.hash.slice(1)) : {}) };
        const size = (this.entry().bytes + 1.1e6) / 1e6;
        this.say(`Loading the model, ${size.toFixed(0)} MB …`);
        await this.bring();
        this.build();
        this.mount.classList.add("tau-live");
        document.documentElement.classList.add("tau-playing");
        this.say("");
        this.write();
        this.compute();
      } catch (error) {
        this.say(`The explorer could not start. ${error.message} The image above stays as it is.`);
        console.warn(error);
      }
    }

    say(text) {
      this.status.textContent = text;
    }

    defaults() {
      const model = this.mount.dataset.model || this.catalogue.models[0].name;
      return {
        model, image: 7, ink: null, family: "rotation", direction: 0, strength: 0.8,
        k: 1, between: 0, mix: 1,
      };
    }

    entry(name = this.state.model) {
      const found = this.catalogue.models.find((m) => m.name === name);
      if (!found) throw new Error(`There is no model ${name} on this site.`);
      return found;
    }

    /* The model and the images that the state asks for. */
    async bring() {
      const { name, dataset } = this.entry();
      const [model, images] = await Promise.all([loadModel(name), loadImages(dataset)]);
      if (this.state.model !== name) return; // another one was chosen meanwhile
      Object.assign(this, { model, images, codes: null });
    }

    /* ---- State and address ---- */

    /* The part of the state that a text such as "family=shear&k=3" gives; nonsense is left out. */
    parse(text) {
      const given = new URLSearchParams(text), state = {};
      const number = (key, low, high) => {
        const value = Number(given.get(key));
        if (given.has(key) && Number.isFinite(value)) state[key] = clamp(value, low, high);
      };
      const has = (key, options) => options.includes(given.get(key)) && (state[key] = given.get(key));
      has("model", this.catalogue.models.map((m) => m.name));
      has("family", Object.keys(this.catalogue.most));
      number("image", 0, 59);
      number("direction", 0, 2);
      number("strength", -1, 1);
      number("k", 0, TIMES);
      number("between", -1, 1);
      number("mix", 0, 1);
      for (const key of ["image", "direction", "k"])
        if (key in state) state[key] = Math.round(state[key]);
      try {
        if (given.has("ink")) state.ink = TauDrawing.unpack(given.get("ink"));
      } catch {
        this.say("The address holds a drawn image that cannot be read; it is left out.");
      }
      return state;
    }

    address() {
      const { ink, image, ...rest } = this.state;
      const all = { ...rest, ...(ink ? { ink: TauDrawing.pack(ink) } : { image }) };
      return "#" + new URLSearchParams(all);
    }

    apply(text) {
      const { model, ...rest } = { ...this.defaults(), ...this.parse(text) };
      Object.assign(this.state, rest);
      this.switchModel(model);
    }

    change(update) {
      Object.assign(this.state, update);
      if (!this.model) return;
      this.write();
      this.schedule();
    }

    schedule() {
      // at most once for each frame, however fast a finger moves
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        this.compute();
      });
      clearTimeout(this.saving);
      this.saving = setTimeout(() => this.save(), 300); // browsers limit how often it may change
    }

    save() {
      if (!this.full) return;
      this.written = this.address();
      history.replaceState(history.state, "", this.written);
    }

    async switchModel(name) {
      const before = this.state.model;
      if (name !== before) {
        this.state.model = name;
        this.say(`Loading ${name}, ${(this.entry().bytes / 1e6).toFixed(0)} MB …`);
        try {
          await this.bring();
          this.say("");
        } catch (error) {
          this.state.model = before;
          this.say(error.message);
        }
      }
      this.change({});
    }

    /* ---- The page ---- */

    build() {
      this.panel = element("div", { className: "tau-panel" });
      const main = element("div", { className: "tau-main" });
      if (this.full) {
        main.append(this.picker(), this.triplet(), this.codesPart());
        this.panel.append(main, this.gallery(), this.orbit(), this.between(), this.footer());
      } else {
        main.append(this.triplet(), this.gallery(), this.picker());
        this.panel.append(main);
      }
      this.mount.insertBefore(this.panel, this.status);
      const seen = new IntersectionObserver(
        (entries) => {
          for (const { target, isIntersecting } of entries)
            this.hidden[isIntersecting ? "delete" : "add"](target);
          this.schedule();
        },
        { rootMargin: "200px" },
      );
      this.panel.querySelectorAll("section").forEach((part) => seen.observe(part));
      const repaint = () => this.schedule();
      new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
      addEventListener("resize", repaint);
      addEventListener("beforeprint", () => {
        this.hidden.clear();
        this.compute();
      });
      addEventListener("hashchange", () => {
        if (!this.full || location.hash === this.written || !location.hash.includes("=")) return;
        this.apply(location.hash.slice(1));
      });
      for (const button of document.querySelectorAll(".tau-try"))
        if (this.full)
          button.addEventListener("click", () => {
            this.apply(button.dataset.state);
            this.mount.scrollIntoView({ block: "start" });
          });
    }

    canvas(label, className = "tau-strip") {
      return element("canvas", { className, role: "img", "aria-label": label, width: 28, height: 28 });
    }

    picker() {
      this.picks = Array.from({ length: COLUMNS }, (_, k) => {
        const canvas = element("canvas", { width: 28, height: 28, "aria-hidden": "true" });
        const pick = () => this.change({ image: this.page() * COLUMNS + k, ink: null });
        return element("button", { type: "button", className: "tau-pick", onclick: pick }, canvas);
      });
      const next = () => {
        const { count } = this.catalogue.datasets[this.entry().dataset];
        this.change({ image: (this.state.image + COLUMNS) % count, ink: null });
      };
      this.drawButton = element("button", {
        type: "button", "aria-expanded": "false", "aria-controls": `${this.id}-pad`,
        onclick: () => this.openPad(this.padPart.hidden),
      }, "Draw one");
      this.pad = new TauDrawing.Pad((ink) => this.change({ ink }));
      this.padPart = element("div", { id: `${this.id}-pad`, className: "tau-drawing", hidden: true },
        this.pad.canvas,
        element("div", { className: "tau-buttons" },
          element("button", { type: "button", onclick: () => this.pad.clear() }, "Clear"),
          element("button", { type: "button", onclick: () => this.openPad(false) }, "Done")));
      const part = element(
        "section",
        { className: "tau-picker", "aria-label": "Choose an image" },
        element("h2", {}, this.full ? "1 · Choose an image" : "Choose another one"),
        element("div", { className: "tau-picks" }, ...this.picks),
        element("div", { className: "tau-buttons" }, this.drawButton,
          element("button", { type: "button", onclick: next }, "Ten others")),
        this.padPart,
      );
      if (this.full) part.append(this.modelSelect());
      return part;
    }

    openPad(open) {
      this.padPart.hidden = !open;
      this.drawButton.setAttribute("aria-expanded", String(open));
      if (open) {
        this.pad.clear();
        this.pad.canvas.focus({ preventScroll: true });
      } else this.drawButton.focus({ preventScroll: true });
    }

    triplet() {
      this.views = {};
      const figure = (key, caption, side) => {
        this.views[key] = this.canvas("", "tau-view");
        if (side) this.dragging(this.views[key], side);
        return element("figure", { className: `tau-${key}` }, this.views[key], element("figcaption", {}, caption));
      };
      const views = [
        figure("x2", "x₂ = f⁻¹(x₀)", -1), figure("x0", "x₀"), figure("x1", "x₁ = f(x₀)", 1),
      ];
      if (this.full)
        views.push(figure("y2", "τ⁻¹ on z"), figure("y0", "z, decoded"), figure("y1", "τ on z"));
      this.hint = element("p", { className: "tau-hint" });
      this.strength = slider(`${this.id}-strength`, "Strength", -1, 1, 0.01, (strength) => this.change({ strength }));
      return element(
        "section",
        { className: "tau-triplet", "aria-label": "Transform it" },
        element("h2", {}, this.full ? "2 · Transform it" : "Turn the image"),
        ...(this.full ? this.controls() : []),
        element("div", { className: "tau-views" }, ...views),
        this.strength.row,
        ...(this.full ? [] : this.controls()),
        this.hint,
      );
    }

    /* Turn a view with mouse or finger: about the centre for rotation, else along the direction. */
    dragging(canvas, side) {
      canvas.classList.add("tau-drag");
      let from = null;
      const angle = (event) => {
        const box = canvas.getBoundingClientRect();
        const x = event.clientX - box.left - box.width / 2, y = event.clientY - box.top - box.height / 2;
        return (Math.atan2(-y, x) * 180) / Math.PI; // counter-clockwise, as the package counts
      };
      canvas.addEventListener("pointerdown", (event) => {
        if (from) return;
        canvas.setPointerCapture(event.pointerId);
        from = { id: event.pointerId, x: event.clientX, y: event.clientY, angle: angle(event), strength: this.state.strength };
      });
      canvas.addEventListener("pointermove", (event) => {
        if (event.pointerId !== from?.id) return;
        const { family, direction } = this.state;
        let moved;
        if (family === "rotation") {
          const turn = ((angle(event) - from.angle + 540) % 360) - 180;
          moved = turn / this.catalogue.most.rotation;
        } else {
          const vertical = direction === 1 && family !== "scale";
          const way = vertical ? event.clientY - from.y : event.clientX - from.x;
          moved = (2 * way) / canvas.clientWidth;
        }
        this.change({ strength: Math.round(100 * clamp(from.strength + side * moved, -1, 1)) / 100 });
      });
      const release = (event) => event.pointerId === from?.id && (from = null);
      canvas.addEventListener("pointerup", release);
      canvas.addEventListener("pointercancel", release);
    }

    controls() {
      const { most, trained } = this.catalogue;
      const options = (this.full ? Object.keys(most) : trained).map((family) => {
        const seen = this.catalogue.trained.includes(family);
        const radio = element("input", {
          type: "radio", name: `${this.id}-family`, value: family,
          onchange: () => this.change({ family, direction: 0 }),
        });
        return element("label", { className: "tau-chip" }, radio, seen ? family : `${family} *`);
      });
      this.families = options;
      const id = `${this.id}-direction`;
      this.direction = element("select", { id, onchange: () => this.change({ direction: this.direction.selectedIndex }) });
      this.directionRow = element("div", { className: "tau-field" }, element("label", { htmlFor: id }, "Direction"), this.direction);
      const legend = element("legend", {}, "Transformation f");
      return [element("fieldset", {}, legend, ...options), this.directionRow];
    }

    modelSelect() {
      const id = `${this.id}-model`;
      this.select = element("select", { id, onchange: () => this.switchModel(this.select.value) });
      for (const [key, { label }] of Object.entries(this.catalogue.datasets)) {
        const group = element("optgroup", { label });
        for (const { name, dataset, action } of this.catalogue.models)
          if (dataset === key) group.append(element("option", { value: name }, `${action} on ${label}`));
        this.select.append(group);
      }
      return element("div", { className: "tau-field" }, element("label", { htmlFor: id }, "Model"), this.select);
    }

    codesPart() {
      this.bars = { z: this.canvas("", "tau-bars tau-bars-z"), tau: this.canvas("", "tau-bars tau-bars-tau") };
      this.notes = { z: element("p", { className: "tau-note" }), tau: element("p", { className: "tau-note" }) };
      return element(
        "section",
        { className: "tau-codes", "aria-label": "Codes" },
        element("h2", {}, "3 · What the model reads off them"),
        this.notes.z, this.bars.z, this.notes.tau, this.bars.tau,
      );
    }

    row(label, canvas, className = "") {
      return element("div", { className: `tau-row ${className}` }, element("span", { className: "tau-label" }, label), canvas);
    }

    gallery() {
      const [f1, t1, x, t2, f2] = Array.from({ length: 5 }, () => this.canvas(""));
      this.rows = { f1, t1, x, t2, f2 };
      const rows = this.full
        ? [this.row("true f", f1, "tau-there"), this.row("τ applied", t1, "tau-there"), this.row("other images", x),
           this.row("τ⁻¹ applied", t2, "tau-back"), this.row("true f⁻¹", f2, "tau-back")]
        : [this.row("other images", x), this.row("τ applied", t1, "tau-there"), this.row("true f", f1, "tau-there")];
      const part = element("section", { className: "tau-gallery", "aria-label": "Other images" },
        element("h2", {}, this.full ? "4 · Its τ on other images" : "Its τ on other images"));
      if (this.full) {
        this.k = slider(`${this.id}-k`, "How often τ is applied", 0, TIMES, 1, (k) => this.change({ k }));
        part.append(this.k.row);
      }
      const note = "Lines mark the image of the same class as the one that τ was read off.";
      this.classNote = element("p", { className: "tau-hint" }, note);
      part.append(...rows, this.classNote);
      if (!this.full) part.append(this.more());
      return part;
    }

    /* The way to the full form; it takes the state along, but only when it is followed. */
    more() {
      const page = BASE + "../book/explorer.html";
      const link = element("a", { href: page, onclick: () => (link.href = page + this.address()) }, "Open the τ explorer");
      const text = ": the codes, other models and actions, τ applied again and again.";
      return element("p", { className: "tau-hint" }, link, text);
    }

    orbit() {
      this.orbits = { there: this.canvas(""), back: this.canvas("") };
      return element(
        "section",
        { className: "tau-orbit", "aria-label": "Again and again" },
        element("h2", {}, "5 · Its τ on the image itself, again and again"),
        this.row(`τ, 0 to ${TIMES} times`, this.orbits.there, "tau-there"),
        this.row(`τ⁻¹, 0 to ${TIMES} times`, this.orbits.back, "tau-back"),
      );
    }

    between() {
      this.betweenSlider = slider(`${this.id}-between`, "From x₂ to x₁", -1, 1, 0.02, (between) => this.change({ between }));
      this.mixSlider = slider(`${this.id}-mix`, "From z₀ to z", 0, 1, 0.02, (mix) => this.change({ mix }));
      this.inner = {
        code: this.canvas("", "tau-view"), truth: this.canvas("", "tau-view"),
        mixed: this.canvas("", "tau-view"), x0: this.canvas("x₀ itself", "tau-view"),
      };
      const figure = (key, caption) => element("figure", {}, this.inner[key], element("figcaption", {}, caption));
      return element(
        "section",
        { className: "tau-between", "aria-label": "Between" },
        element("h2", {}, "6 · In between"),
        element("div", { className: "tau-pair" },
          element("div", {}, this.betweenSlider.row,
            element("div", { className: "tau-two" }, figure("code", "between the codes"), figure("truth", "true f"))),
          element("div", {}, this.mixSlider.row,
            element("div", { className: "tau-two" }, figure("mixed", "decoded"), figure("x0", "x₀ itself")))),
      );
    }

    footer() {
      const copy = async () => {
        this.save();
        try {
          await navigator.clipboard.writeText(location.href);
          this.say("The address of this state is copied.");
        } catch {
          this.say("The address bar holds this state: copy it from there.");
        }
      };
      return element("div", { className: "tau-buttons" },
        element("button", { type: "button", onclick: copy }, "Copy a link to this"),
        element("button", { type: "button", onclick: () => this.apply("") }, "Start over"));
    }

    /* ---- Showing the state ---- */

    page() {
      return Math.floor(this.state.image / COLUMNS);
    }

    className(position) {
      const { dataset } = this.entry();
      const name = this.catalogue.datasets[dataset].classes[this.images.labels[position]];
      return dataset === "mnist" ? `the digit ${name}` : name;
    }

    /* The strength in words, for the family's own unit. */
    amount(strength = this.state.strength) {
      const { family } = this.state;
      return amount(family, strength * this.catalogue.most[family]);
    }

    /* The controls say what the state says. */
    write() {
      const { state } = this, family = TauEngine.families[state.family];
      state.direction = Math.min(state.direction, family.directions.length - 1);
      for (const { firstChild } of this.families) firstChild.checked = firstChild.value === state.family;
      this.direction.replaceChildren(...family.directions.map((d) => element("option", {}, d)));
      this.direction.selectedIndex = state.direction;
      this.directionRow.hidden = family.directions.length < 2;
      this.strength.set(state.strength, this.amount());
      const turn = state.family === "rotation" ? "Turn" : "Drag";
      const unseen = this.catalogue.trained.includes(state.family) ? "" : " * No model has met this in training.";
      this.classNote.hidden = Boolean(state.ink);
      this.hint.textContent = `${turn} x₁ or x₂ with mouse or finger, or use the slider.${unseen}`;
      for (const [k, button] of this.picks.entries()) {
        const position = this.page() * COLUMNS + k;
        button.setAttribute("aria-pressed", String(!state.ink && position === state.image));
        button.setAttribute("aria-label", `Image ${position + 1}: ${this.className(position)}`);
      }
      if (!this.full) return;
      this.select.value = state.model;
      this.k.set(state.k, ["not at all", "once"][state.k] ?? `${state.k} times`);
      this.betweenSlider.set(state.between, state.between === 0 ? "half-way" : this.amount(state.between * state.strength));
      this.mixSlider.set(state.mix, `${Math.round(100 * state.mix)} %`);
    }

    /* Views, codes, decoded images: all that depends on the state. */
    compute() {
      if (!this.model) return;
      const begun = performance.now();
      const { model, images, state } = this, { PIXELS, join, warp, power } = TauEngine;
      const shown = (part) => !this.hidden.has(this.panel.querySelector(`.tau-${part}`));
      const family = TauEngine.families[state.family];
      const value = state.strength * this.catalogue.most[state.family];
      const matrix = (v) => family.matrix(v, state.direction);
      const test = (position) => images.pixels.subarray(position * PIXELS, (position + 1) * PIXELS);

      const x0 = state.ink ?? test(state.image);
      const [there, back] = [matrix(value), matrix(-value)];
      const [x1, x2] = [warp(x0, there), warp(x0, back)];
      const d = model.d, codes = model.encode(join([x0, x1, x2]));
      const [z0, z1, z2] = [0, 1, 2].map((k) => codes.subarray(k * d, (k + 1) * d));
      const { z, tau } = model.posterior(z1, z2);

      // everything that is to be decoded goes through the decoder as one batch
      const wanted = [], takers = [];
      const decode = (batch, taker) => {
        wanted.push(batch);
        takers.push(taker);
      };
      const first = this.page() * COLUMNS;
      // the next ten images; of these the compact form shows six, the one of the same class among them
      const columns = this.full ? COLUMNS : 6, label = images.labels[state.image];
      let start = ((this.page() + 1) * COLUMNS) % images.labels.length;
      if (!this.full) start += clamp(label - 3, 0, COLUMNS - columns);
      const others = images.pixels.subarray(start * PIXELS, (start + columns) * PIXELS);
      // a drawn image has no class
      const same = state.ink ? null : images.labels.indexOf(label, start) - start;
      if (this.codes?.start !== start) this.codes = { start, z: model.encode(others) };

      if (this.full && shown("triplet"))
        decode(join([model.act(z, tau, -1), z, model.act(z, tau)]), (y) =>
          ["y2", "y0", "y1"].forEach((key, k) => paint(this.views[key], y.subarray(k * PIXELS, (k + 1) * PIXELS))));
      if (shown("gallery")) {
        decode(model.actTimes(this.codes.z, tau, 1, state.k), (y) => paint(this.rows.t1, y, same));
        if (this.full) decode(model.actTimes(this.codes.z, tau, -1, state.k), (y) => paint(this.rows.t2, y, same));
      }
      if (this.full && shown("orbit"))
        for (const [key, sign] of [["there", 1], ["back", -1]]) {
          const path = [z];
          for (let k = 0; k < TIMES; k++) path.push(model.act(path[k], tau, sign));
          decode(join(path), (y) => paint(this.orbits[key], y));
        }
      if (this.full && shown("between"))
        decode(join([mix(z2, z1, (1 + state.between) / 2), mix(z0, z, state.mix)]), (y) => {
          paint(this.inner.code, y.subarray(0, PIXELS));
          paint(this.inner.mixed, y.subarray(PIXELS));
        });

      paint(this.views.x0, x0);
      paint(this.views.x1, x1);
      paint(this.views.x2, x2);
      if (wanted.length) {
        const decoded = model.decode(join(wanted));
        let at = 0;
        wanted.forEach((batch, k) => {
          const length = (batch.length / d) * PIXELS;
          takers[k](decoded.subarray(at, at + length));
          at += length;
        });
      }
      if (shown("picker"))
        this.picks.forEach((button, k) => paint(button.firstChild, test(first + k)));
      if (shown("gallery")) {
        paint(this.rows.x, others, same);
        const truth = (m) => join(Array.from({ length: columns }, (_, k) => warp(test(start + k), power(m, state.k))));
        paint(this.rows.f1, truth(there), same);
        if (this.full) paint(this.rows.f2, truth(back), same);
      }
      if (this.full && shown("between")) {
        paint(this.inner.truth, warp(x0, matrix(state.between * value)));
        paint(this.inner.x0, x0);
      }
      if (this.full && shown("codes")) this.showCodes(z, tau);
      this.name();
      this.results = { x0, x1, x2, z0, z1, z2, z, tau };
      this.milliseconds = performance.now() - begun;
    }

    showCodes(z, tau) {
      const { model } = this;
      const bars = (key, values, text, groups = [values.length]) => {
        const most = values.reduce((m, v) => Math.max(m, Math.abs(v)), 0);
        const id = `${model.name} ${key}`; // a scale that only grows, so that bars can be compared
        this.peaks[id] = Math.max(this.peaks[id] ?? 1, Math.ceil(2 * most) / 2);
        paintBars(this.bars[key], values, this.peaks[id], groups);
        this.bars[key].setAttribute("aria-label", `${text}; the largest is ${most.toFixed(2)} in size`);
        this.notes[key].replaceChildren(element("b", {}, key === "z" ? "z" : "τ"), ` ${text}. Scale ±${this.peaks[id]}.`);
      };
      bars("z", z, `${model.d} numbers: what is in the image`);
      bars("tau", tau, TAU[model.action](model.d), BANDS[model.action]?.(model.d));
    }

    /* What the canvases show, in words. */
    name() {
      const { state } = this, subject = state.ink ? "the drawn image" : this.className(state.image);
      const done = `${state.family} ${this.amount()}`, undone = `${state.family} ${this.amount(-state.strength)}`;
      const label = (canvas, text) => canvas.setAttribute("aria-label", text);
      label(this.views.x0, `x₀: ${subject}`);
      label(this.views.x1, `x₁: ${subject} after ${done}`);
      label(this.views.x2, `x₂: ${subject} after ${undone}`);
      label(this.rows.x, "Other images, each of another class");
      const times = state.k === 1 ? "" : `, ${state.k} times`;
      label(this.rows.t1, `The other images with τ applied${times}, decoded`);
      label(this.rows.f1, `The other images after ${done}${times}, in truth`);
      if (!this.full) return;
      label(this.views.y0, "The inferred code z, decoded");
      label(this.views.y1, "τ applied to z, decoded: the model's account of x₁");
      label(this.views.y2, "τ⁻¹ applied to z, decoded: the model's account of x₂");
      label(this.rows.t2, `The other images with τ⁻¹ applied${times}, decoded`);
      label(this.rows.f2, `The other images after ${undone}${times}, in truth`);
      label(this.orbits.there, `${subject} with its own τ applied 0 to ${TIMES} times, decoded`);
      label(this.orbits.back, `${subject} with its own τ⁻¹ applied 0 to ${TIMES} times, decoded`);
      label(this.inner.code, "A code on the line from z₂ to z₁, decoded");
      label(this.inner.truth, `${subject} after ${state.family} ${this.amount(state.between * state.strength)}`);
      label(this.inner.mixed, "A code on the line from z₀ to z, decoded");
    }
  }

  /* ---- Mounts ---- */

  window.TauExplorer.mounts = [];
  whenNear(".tau-explorer", (mount) => {
    const explorer = new Explorer(mount);
    TauExplorer.mounts.push(explorer);
    return explorer;
  });
})();
