/* Small live figures for the chapters.

     <div class="tau-plane" data-form="A"></div>             z and τ that fit two codes best, A or M
     <div class="tau-strength" data-form="triplet"></div>    a triplet, its strength, the way there and back */
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

  window.TauFigures = [];
  const keep = (figure) => (TauFigures.push(figure), figure);
  whenNear(".tau-plane", (mount) => keep(new Plane(mount)));
  whenNear(".tau-strength", (mount) => keep(new Strength(mount)));
})();
