/* Small live figures for the chapters.

     <div class="tau-plane" data-form="A"></div>             z and τ that fit two codes best, A or M
     <div class="tau-strength" data-form="triplet"></div>    a triplet, its strength, the way there and back
     <div class="tau-anchors" data-form="mnist"></div>       accuracy against the number of labelled images
     <div class="tau-walk" data-form="mnist"></div>          NLL against KL₀, epoch by epoch, and equal ELBOs */
"use strict";

(() => {
  const { script, received, loadImages, whenNear } = TauPage;
  const { element, clamp, signed, amount, paint, slider } = TauPage;
  const SVG = "http://www.w3.org/2000/svg";
  const EXTENT = 3; // the plane is shown from −3 to 3

  const fixed = (v) => v.toFixed(2).replace("-", "−");
  const point = (p) => `(${fixed(p[0])}, ${fixed(p[1])})`;
  const draw = (tag, attributes, ...children) => {
    const made = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /* ---- The plane: two codes that can be moved, and the z and τ that fit them best ---- */

  const solutions = {
    /* Half-way, and half of the difference: any two codes are met exactly. */
    A(z1, z2) {
      const z = [0, 1].map((k) => (z1[k] + z2[k]) / 2), tau = [0, 1].map((k) => (z1[k] - z2[k]) / 2);
      return { z, tau, reached: [z1, z2], cost: 0 };
    },
    /* On the bisector with the mean length, and half of the angle: lengths that differ remain. */
    M(z1, z2) {
      const [r1, r2] = [Math.hypot(...z1), Math.hypot(...z2)], r = (r1 + r2) / 2;
      const [a1, a2] = [Math.atan2(z1[1], z1[0]), Math.atan2(z2[1], z2[0])];
      const theta = (((a1 - a2 + 3 * Math.PI) % (2 * Math.PI)) - Math.PI) / 2; // the shorter way round
      const at = (angle) => [r * Math.cos(angle), r * Math.sin(angle)];
      return { z: at(a2 + theta), tau: [theta], reached: [at(a2 + 2 * theta), at(a2)], cost: (r1 - r2) ** 2 / 2 };
    },
  };

  const TEXT = {
    A: ({ z, tau }) =>
      `z = ${point(z)}, half-way; τ = ${point(tau)}, half of the difference. C₁ + C₂ = 0: a vector that is added meets any two codes.`,
    M: ({ z, tau, cost }) =>
      `z = ${point(z)}, on the bisector; θ = ${signed((tau[0] * 180) / Math.PI, 0)}°, half of the angle. ` +
      `C₁ + C₂ = ${fixed(cost)}: ` +
      (cost < 0.005 ? "both codes are equally long." : "a turn cannot change a length."),
  };

  class Plane {
    constructor(mount) {
      this.mount = mount;
      this.action = mount.dataset.form;
      this.points = { z1: [-0.3, 1.5], z2: [2.1, 0.9] };
    }

    start() {
      this.drawing = draw("g", {});
      const axis = { class: "tau-axis" };
      this.handles = Object.fromEntries(["z1", "z2"].map((key) => [key, this.handle(key)]));
      this.svg = draw(
        "svg",
        { viewBox: `${-EXTENT} ${-EXTENT} ${2 * EXTENT} ${2 * EXTENT}`, class: "tau-plane-drawing" },
        draw("line", { x1: -EXTENT, x2: EXTENT, y1: 0, y2: 0, ...axis }),
        draw("line", { y1: -EXTENT, y2: EXTENT, x1: 0, x2: 0, ...axis }),
        this.drawing,
        this.handles.z1,
        this.handles.z2,
      );
      this.text = element("p", { className: "tau-note", role: "status" });
      const hint = element("p", { className: "tau-hint" }, "Move z₁ and z₂ with mouse or finger, or with the arrow keys.");
      this.mount.append(
        element("div", { className: "tau-panel tau-plane-panel" }, this.svg, element("div", {}, this.text, hint)),
      );
      this.mount.classList.add("tau-live");
      this.show();
    }

    /* A point that can be moved. SVG's y points down, the plane's up. */
    handle(key) {
      const made = draw("g", { class: `tau-handle tau-${key}`, tabindex: 0, role: "application" },
        draw("circle", { r: 0.4, class: "tau-touch" }), draw("circle", { r: 0.13 }),
        draw("text", {}, key === "z1" ? "z₁" : "z₂"));
      const move = (x, y) => {
        this.points[key] = [clamp(x, -EXTENT, EXTENT), clamp(y, -EXTENT, EXTENT)];
        this.show();
      };
      let active = null;
      made.addEventListener("pointerdown", (event) => {
        active = event.pointerId;
        made.setPointerCapture(active);
      });
      made.addEventListener("pointermove", (event) => {
        if (event.pointerId !== active) return;
        const box = this.svg.getBoundingClientRect(), scale = (2 * EXTENT) / box.width;
        move((event.clientX - box.left) * scale - EXTENT, EXTENT - (event.clientY - box.top) * scale);
      });
      for (const kind of ["pointerup", "pointercancel"]) made.addEventListener(kind, () => (active = null));
      made.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!way) return;
        event.preventDefault();
        move(this.points[key][0] + 0.1 * way[0], this.points[key][1] + 0.1 * way[1]);
      });
      return made;
    }

    show() {
      const { z1, z2 } = this.points, found = solutions[this.action](z1, z2), { z, reached } = found;
      this.solution = found;
      for (const [key, p] of Object.entries(this.points)) {
        this.handles[key].setAttribute("transform", `translate(${p[0]} ${-p[1]})`);
        // the name stands on the side that is turned away from z
        const away = [p[0] - z[0], z[1] - p[1]], far = Math.hypot(...away) || 1;
        this.handles[key].lastChild.setAttribute("x", (0.38 * away[0]) / far);
        this.handles[key].lastChild.setAttribute("y", (0.38 * away[1]) / far);
        this.handles[key].setAttribute("aria-label", `${key === "z1" ? "z₁" : "z₂"} at ${point(p)}; arrow keys move it`);
      }
      const line = (a, b, name) => draw("line", { x1: a[0], y1: -a[1], x2: b[0], y2: -b[1], class: name });
      const parts = [];
      if (this.action === "A") parts.push(line(z, z1, "tau-there-line"), line(z, z2, "tau-back-line"));
      else {
        const r = Math.hypot(...z);
        const arc = (to, name, sweep) =>
          draw("path", { d: `M ${z[0]} ${-z[1]} A ${r} ${r} 0 0 ${sweep} ${to[0]} ${-to[1]}`, class: name });
        const left = found.tau[0] > 0 ? 0 : 1; // counter-clockwise is sweep 0 where y points down
        parts.push(
          draw("circle", { r, class: "tau-circle" }),
          line([0, 0], z, "tau-axis"),
          arc(reached[0], "tau-there-line", left),
          arc(reached[1], "tau-back-line", 1 - left),
          line(reached[0], z1, "tau-miss"),
          line(reached[1], z2, "tau-miss"),
          draw("circle", { cx: reached[0][0], cy: -reached[0][1], r: 0.08, class: "tau-reached tau-there-line" }),
          draw("circle", { cx: reached[1][0], cy: -reached[1][1], r: 0.08, class: "tau-reached tau-back-line" }),
        );
      }
      const middle = (p) => ({ x: (z[0] + p[0]) / 2 + 0.1, y: -(z[1] + p[1]) / 2 - 0.12 });
      const letter = this.action === "A" ? "τ" : "θ";
      parts.push(
        draw("text", { ...middle(reached[0]), class: "tau-there-text" }, letter),
        draw("text", { ...middle(reached[1]), class: "tau-back-text" }, `−${letter}`),
        draw("circle", { cx: z[0], cy: -z[1], r: 0.1, class: "tau-z" }),
        draw("text", { x: z[0] + 0.15, y: -z[1] + 0.38 }, "z"),
      );
      this.drawing.replaceChildren(...parts);
      this.text.textContent = TEXT[this.action](found);
    }
  }

  /* ---- The strength of a triplet, and what the way there and back leaves ---- */

  let count = 0;

  class Strength {
    constructor(mount) {
      this.mount = mount;
      this.id = `tau-strength${count++}`;
      this.state = { family: "rotation", direction: 0, strength: 0.8, image: 5 };
    }

    async start() {
      const status = element("p", { className: "tau-status", role: "status" });
      this.mount.append(status);
      try {
        await script("catalogue.js");
        this.catalogue = received.catalogue.all;
        this.images = await loadImages("mnist");
      } catch (error) {
        status.textContent = `${error.message} The image above stays as it is.`;
        return;
      }
      this.build();
      this.mount.classList.add("tau-live");
      this.show();
    }

    build() {
      const canvas = () => element("canvas", { className: "tau-view", role: "img", width: 28, height: 28 });
      this.views = { x2: canvas(), x0: canvas(), x1: canvas(), back: canvas() };
      const captions = { x2: "x₂ = f⁻¹(x₀)", x0: "x₀", x1: "x₁ = f(x₀)", back: "f⁻¹(f(x₀))" };
      const figures = Object.entries(this.views).map(([key, view]) =>
        element("figure", { className: `tau-${key}` }, view, element("figcaption", {}, captions[key])));
      const choose = (name, label, change) => {
        const select = element("select", { id: `${this.id}-${name}`, onchange: () => change(select) });
        const row = element("div", { className: "tau-field" }, element("label", { htmlFor: select.id }, label), select);
        return { select, row };
      };
      const family = choose("family", "Transformation f", (select) => this.change({ family: select.value, direction: 0 }));
      for (const name of this.catalogue.trained) family.select.append(element("option", {}, name));
      this.direction = choose("direction", "Direction", (select) => this.change({ direction: select.selectedIndex }));
      this.slider = slider(`${this.id}-strength`, "Strength", -1, 1, 0.01, (strength) => this.change({ strength }));
      this.text = element("p", { className: "tau-note" });
      const next = () => this.change({ image: (this.state.image + 1) % this.images.labels.length });
      const other = element("button", { type: "button", onclick: next }, "Another digit");
      this.mount.append(
        element("div", { className: "tau-panel" },
          element("div", { className: "tau-fields" }, family.row, this.direction.row, other),
          element("div", { className: "tau-views tau-four" }, ...figures), this.slider.row, this.text),
      );
    }

    change(update) {
      Object.assign(this.state, update);
      this.show();
    }

    show() {
      const { family, direction, strength, image } = this.state, { families, warp, product } = TauEngine;
      const value = strength * this.catalogue.most[family];
      const [there, back] = [value, -value].map((v) => families[family].matrix(v, direction));
      const both = product(there, back);
      const x0 = this.images.pixels.subarray(784 * image, 784 * (image + 1));
      const images = { x0, x1: warp(x0, there), x2: warp(x0, back), back: warp(x0, both) };
      const digit = `the digit ${this.images.labels[image]}`;
      const labels = {
        x0: `x₀: ${digit}`, x1: `x₁: ${digit} after ${family} ${amount(family, value)}`,
        x2: `x₂: ${digit} after ${family} ${amount(family, -value)}`, back: `${digit} after both, one after the other`,
      };
      for (const [key, view] of Object.entries(this.views)) {
        paint(view, images[key]);
        view.setAttribute("aria-label", labels[key]);
      }
      this.direction.select.replaceChildren(...families[family].directions.map((d) => element("option", {}, d)));
      this.direction.select.selectedIndex = direction;
      this.direction.row.hidden = families[family].directions.length < 2;
      this.slider.set(strength, amount(family, value));
      // how much the way there and back enlarges at the centre: the inverse of its derivative there
      const S = 14 * both[6] + 14 * both[7] + both[8], u = 14 * (both[0] + both[1]) + both[2];
      const v = 14 * (both[3] + both[4]) + both[5];
      this.zoom = [S * S / (both[0] * S - both[6] * u), S * S / (both[4] * S - both[7] * v)];
      const [x, y] = this.zoom.map((z) => z.toFixed(2));
      this.text.textContent = x === y
        ? `There and back again, the digit is upright and ${x} times as large: f⁻¹ undoes everything but the zoom.`
        : `There and back again, the digit is ${x} times as wide and ${y} times as tall: f⁻¹ undoes everything but the zoom.`;
    }
  }

  /* ---- Charts: lines in a frame, a slider, and a table that says where the lines are ---- */

  const thousands = (n) => n.toLocaleString("en");
  const SHARE = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });
  const share = (v) => SHARE.format(v);
  const ink = (colour) => (colour === "#000000" || colour === "#333333" ? "currentColor" : colour);

  class Chart {
    constructor(mount) {
      this.mount = mount;
      this.id = `tau-chart${count++}`;
      this.state = { dataset: mount.dataset.form, step: null };
    }

    async start() {
      const status = element("p", { className: "tau-status", role: "status" });
      this.mount.append(status);
      try {
        await script(`figures/${this.file}.js`);
      } catch (error) {
        status.textContent = `${error.message} The image above stays as it is.`;
        return;
      }
      this.data = received.figure[this.file];
      this.state.step = this.first();
      this.build();
      this.mount.classList.add("tau-live");
      new ResizeObserver(() => this.show()).observe(this.frame);
      this.show();
    }

    build() {
      const select = element("select", { id: `${this.id}-dataset`, onchange: () => this.change({ dataset: select.value }) });
      for (const [key, { label }] of Object.entries(this.data.datasets)) select.append(element("option", { value: key }, label));
      select.value = this.state.dataset;
      const field = element("div", { className: "tau-field" }, element("label", { htmlFor: select.id }, "Models trained on"), select);
      const [low, high] = this.range();
      this.slider = slider(`${this.id}-step`, this.sliderLabel, low, high, 1, (step) => this.change({ step }));
      this.svg = draw("svg", { class: "tau-chart-drawing", role: "img" });
      this.frame = element("div", { className: "tau-chart-frame" }, this.svg);
      this.text = element("p", { className: "tau-note", role: "status" });
      this.table = element("table", { className: "tau-table" });
      const hint = element("p", { className: "tau-hint" }, this.hint);
      this.mount.append(
        element("div", { className: "tau-panel tau-chart-panel" },
          element("div", {}, field, this.frame), element("div", {}, this.slider.row, this.text, this.table, hint)),
      );
    }

    change(update) {
      Object.assign(this.state, update);
      this.show();
    }

    get lines() {
      return this.data.datasets[this.state.dataset].lines;
    }

    /* An empty frame with room for the axes, in pixels; `x` and `y` place a value. */
    axes(width, height, xs, ys, xTicks, yTicks, xLabel, yLabel) {
      const [left, right, top, bottom] = [44, 12, 10, 42];
      const place = ([low, high], from, to) => (v) => from + ((v - low) / (high - low)) * (to - from);
      const x = place(xs, left, width - right), y = place(ys, height - bottom, top);
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("height", height);
      const clip = `${this.id}-clip`, inner = { x: left, y: top, width: width - left - right, height: height - top - bottom };
      const parts = [draw("defs", {}, draw("clipPath", { id: clip }, draw("rect", inner))), draw("rect", { ...inner, class: "tau-chart-box" })];
      for (const [value, text] of xTicks)
        parts.push(draw("line", { x1: x(value), x2: x(value), y1: top, y2: height - bottom, class: "tau-grid" }),
          draw("text", { x: x(value), y: height - bottom + 14 }, text));
      for (const [value, text] of yTicks)
        parts.push(draw("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "tau-grid" }),
          draw("text", { x: left - 6, y: y(value), class: "tau-tick-y" }, text));
      const middle = (top + height - bottom) / 2;
      parts.push(draw("text", { x: (left + width - right) / 2, y: height - 8 }, xLabel),
        draw("text", { transform: `translate(10 ${middle}) rotate(-90)` }, yLabel));
      const content = draw("g", { "clip-path": `url(#${clip})` });
      this.svg.replaceChildren(...parts, content);
      return { x, y, content, left, right: width - right, top, bottom: height - bottom };
    }

    path(points, line, name = "tau-line") {
      const d = points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      return draw("path", { d, class: name + (line.dashed ? " tau-dashed" : ""), stroke: ink(line.colour) });
    }

    /* The rows of the table: a line's colour and name, and what there is to say of it. */
    write(head, rows) {
      const row = (tag, cells, scope) => element("tr", {}, ...cells.map((c, k) => element(k ? tag : "th", { scope: k ? scope : scope || "row" }, c)));
      const body = rows.map(([line, ...cells]) => {
        const mark = element("span", { className: "tau-swatch" + (line.dashed ? " tau-dashed" : "") });
        mark.style.borderColor = ink(line.colour);
        const name = element("span", {}, mark, line.name);
        return row("td", [name, ...cells]);
      });
      this.table.replaceChildren(element("thead", {}, row("th", head, "col")), element("tbody", {}, ...body));
    }

    show() {
      const width = Math.max(260, Math.min(this.frame.clientWidth, 560));
      this.draw(width);
      this.svg.setAttribute("aria-label", this.describe());
    }
  }

  /* The number of labelled images against accuracy: chapter 16. */
  class Anchors extends Chart {
    file = "anchors";
    sliderLabel = "Labelled images";
    hint = "Five nearest neighbours on distorted digits (AffNIST). Spread: standard deviation over 20 draws of the labelled images.";
    first = () => this.data.anchors.indexOf(1000);
    range = () => [0, this.data.anchors.length - 1];
    describe = () => `Accuracy against the number of labelled images, from ${thousands(this.data.anchors[0])} to ` +
      `${thousands(this.data.anchors.at(-1))}, one line for each representation. ${this.text.textContent}`;

    draw(width) {
      const { anchors } = this.data, { step } = this.state, n = anchors[step];
      const ends = [Math.log10(anchors[0]), Math.log10(anchors.at(-1))];
      const ticks = [100, 1000, 10_000, 100_000].map((v) => [Math.log10(v), thousands(v)]);
      const { x, y, content, top, bottom } = this.axes(width, 330, ends, [0.1, 0.95], ticks,
        [0.2, 0.4, 0.6, 0.8].map((v) => [v, v.toFixed(1)]), "labelled images", "accuracy");
      content.append(draw("line", { x1: x(Math.log10(n)), x2: x(Math.log10(n)), y1: top, y2: bottom, class: "tau-marker" }));
      for (const line of this.lines)
        content.append(this.path(line.accuracy.map((a, k) => [x(Math.log10(anchors[k])), y(a)]), line));
      for (const line of this.lines)
        content.append(draw("circle", { cx: x(Math.log10(n)), cy: y(line.accuracy[step]), r: 4, class: "tau-dot", fill: ink(line.colour) }));
      this.slider.set(step, thousands(n));
      const order = [...this.lines].sort((a, b) => b.accuracy[step] - a.accuracy[step]);
      this.write(["", "accuracy", "spread"], order.map((line) =>
        [line, line.accuracy[step].toFixed(3), line.spread[step] ? `± ${line.spread[step].toFixed(3)}` : "–"]));
      this.text.textContent = this.say(order, step, n);
    }

    say([best, second], step, n) {
      const pixels = this.lines.find((line) => line.name === "pixels");
      const start = `With ${thousands(n)} labelled images, `;
      if (best === pixels)
        return `${start}nothing here beats the raw pixels: ${share(best.accuracy[step])} of the answers are right. ` +
          `${second.name} comes next with ${share(second.accuracy[step])}.`;
      const { anchors } = this.data, goal = best.accuracy[step], after = pixels.accuracy.findIndex((a) => a >= goal);
      const [low, high] = [pixels.accuracy[after - 1], pixels.accuracy[after]];
      const needed = anchors[after - 1] * (anchors[after] / anchors[after - 1]) ** ((goal - low) / (high - low));
      this.needed = needed;
      return `${start}${best.name} is right most often: ${share(goal)} of the answers. Raw pixels are right for ` +
        `${share(pixels.accuracy[step])}; to do as well they need about ${thousands(Number(needed.toPrecision(2)))}.`;
    }
  }

  /* NLL against KL₀ by epoch, over lines of equal sum: chapter 13. */
  class Walk extends Chart {
    file = "walk";
    sliderLabel = "Epoch";
    hint = "On the dotted lines the sum, the ELBO, is the same; less is better. The last eight epochs stand out.";
    first = () => this.data.epochs;
    range = () => [2, this.data.epochs];
    describe = () => `NLL of x₀ against KL₀ on test images after each epoch, a path for each model, over lines on which ` +
      `their sum, the ELBO, is the same. ${this.text.textContent}`;

    draw(width) {
      const { step } = this.state, FROM = 2; // the first epochs would set the scale for all others
      const RECENT = 8; // epochs that stand out
      const seen = (key) => this.lines.flatMap((line) => line[key].slice(FROM));
      const bounds = (values) => [Math.floor(Math.min(...values)) - 1, Math.ceil(Math.max(...values)) + 1];
      const [xs, ys] = [bounds(seen("kl")), bounds(seen("nll"))];
      const marks = ([low, high]) => Array.from({ length: 40 }, (_, k) => 5 * (Math.ceil(low / 5) + k))
        .filter((v) => v <= high).map((v) => [v, String(v)]);
      // one nat is as long on either axis, so that equal sums lie on lines of 45 degrees
      const height = 52 + ((width - 56) * (ys[1] - ys[0])) / (xs[1] - xs[0]);
      const { x, y, content } = this.axes(width, height, xs, ys, marks(xs), marks(ys), "KL₀ (nats)", "NLL of x₀ (nats)");
      for (let sum = 5 * Math.ceil((xs[0] + ys[0]) / 5); sum < xs[1] + ys[1]; sum += 5) {
        content.append(draw("line", { x1: x(xs[0]), y1: y(sum - xs[0]), x2: x(xs[1]), y2: y(sum - xs[1]), class: "tau-level" }));
        const at = Math.min(xs[1] - 0.8, sum - ys[0] - 0.8); // near its lower end
        if (at > xs[0] + 2)
          content.append(draw("text", { x: x(at) - 5, y: y(sum - at) - 7, class: "tau-level-text" }, String(sum)));
      }
      for (const line of this.lines) {
        const points = line.nll.slice(0, step).map((v, k) => [x(line.kl[k]), y(v)]);
        const recent = Math.max(0, points.length - RECENT);
        content.append(this.path(points.slice(0, recent + 1), line, "tau-line tau-past"), this.path(points.slice(recent), line));
        for (const [cx, cy] of points.slice(recent)) content.append(draw("circle", { cx, cy, r: 1.8, fill: ink(line.colour) }));
        const [cx, cy] = points.at(-1);
        content.append(draw("circle", { cx, cy, r: 5, class: "tau-dot", fill: ink(line.colour) }));
      }
      let free = 0; // names above everything else, and beside each other
      for (const line of [...this.lines].sort((a, b) => a.kl[step - 1] - b.kl[step - 1])) {
        const at = Math.max(x(line.kl[step - 1]), free);
        content.append(draw("text", { x: at, y: y(line.nll[step - 1]) + 16, class: "tau-name" }, line.name));
        free = at + 9 + 4 * line.name.length;
      }
      this.slider.set(step, `${step} of ${this.data.epochs}`);
      const now = ({ nll, kl }, k = step - 1) => [nll[k], kl[k], nll[k] + kl[k]];
      this.write(["", "NLL", "KL₀", "sum"], this.lines.map((line) => [line, ...now(line).map((v) => v.toFixed(1))]));
      const moves = (line) => now(line).map((v, k) => signed(v - now(line, step - 2)[k], 1));
      const [a, vae] = ["A", "VAE"].map((name) => moves(this.lines.find((line) => line.name === name)));
      this.text.textContent =
        `From epoch ${step - 1} to ${step}, A's NLL moved by ${a[0]} nats and its KL₀ by ${a[1]}, their sum by ${a[2]}. ` +
        `VAE: ${vae[0]}, ${vae[1]} and ${vae[2]}.`;
    }
  }

  window.TauFigures = [];
  const keep = (figure) => (TauFigures.push(figure), figure);
  whenNear(".tau-plane", (mount) => keep(new Plane(mount)));
  whenNear(".tau-strength", (mount) => keep(new Strength(mount)));
  whenNear(".tau-anchors", (mount) => keep(new Anchors(mount)));
  whenNear(".tau-walk", (mount) => keep(new Walk(mount)));
})();
