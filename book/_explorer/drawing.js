/* Drawing with mouse, finger or keyboard, for the τ explorer: strokes in, an image as MNIST's out. */
"use strict";

const TauDrawing = (() => {
  const PEN = 2.3; // the width of a stroke, in pixels of the image
  const FINE = 6; // drawn this much finer, then averaged
  let sheet = null;

  function rasterise(strokes) {
    const points = strokes.flat();
    const out = new Float32Array(784);
    if (!points.length) return out;
    if (!sheet) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [28 * FINE, 28 * FINE];
      sheet = canvas.getContext("2d", { willReadFrequently: true });
    }
    // MNIST's digits fill 20 × 20 pixels, and their centre of mass is in the middle
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const zoom = Math.min((20 - PEN) / Math.max(box[1] - box[0], box[3] - box[2], 1e-6), 60);
    let shift = [14 - (zoom * (box[0] + box[1])) / 2, 14 - (zoom * (box[2] + box[3])) / 2];
    for (let pass = 0; pass < 2; pass++) {
      sheet.setTransform(1, 0, 0, 1, 0, 0);
      sheet.clearRect(0, 0, 28 * FINE, 28 * FINE);
      Object.assign(sheet, { lineCap: "round", lineJoin: "round", lineWidth: PEN * FINE });
      for (const stroke of strokes) {
        sheet.beginPath();
        for (const [x, y] of [stroke[0], ...stroke])
          sheet.lineTo((zoom * x + shift[0]) * FINE, (zoom * y + shift[1]) * FINE);
        sheet.stroke();
      }
      const ink = sheet.getImageData(0, 0, 28 * FINE, 28 * FINE).data;
      out.fill(0);
      for (let y = 0; y < 28 * FINE; y++)
        for (let x = 0; x < 28 * FINE; x++)
          out[28 * Math.floor(y / FINE) + Math.floor(x / FINE)] +=
            ink[4 * (y * 28 * FINE + x) + 3] / 255 / FINE / FINE;
      let mass = 0, right = 0, down = 0;
      out.forEach((v, p) => {
        mass += v;
        right += v * ((p % 28) + 0.5);
        down += v * (Math.floor(p / 28) + 0.5);
      });
      shift = [shift[0] + 14 - right / mass, shift[1] + 14 - down / mass];
    }
    return out.map((v) => Math.round(15 * v) / 15); // sixteen greys, which fit into an address
  }

  /* An image of sixteen greys as text for an address, and back. */
  const pack = (image) => {
    let text = "";
    for (let p = 0; p < 784; p += 2)
      text += String.fromCharCode(16 * Math.round(15 * image[p]) + Math.round(15 * image[p + 1]));
    return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
  };
  const unpack = (packed) => {
    const text = atob(packed.replace(/-/g, "+").replace(/_/g, "/"));
    if (text.length !== 392) throw new Error("not a drawn image");
    return Float32Array.from({ length: 784 }, (_, p) => {
      const byte = text.charCodeAt(p >> 1);
      return (p % 2 ? byte & 15 : byte >> 4) / 15;
    });
  };

  const SIDE = 224;
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  /* A canvas to draw on; `changed` is called with the image after every movement of the pen. */
  class Pad {
    constructor(changed) {
      this.changed = changed;
      this.strokes = []; // lists of points, both coordinates from 0 to 1
      this.pen = { x: 0.5, y: 0.3, down: false }; // where the keyboard draws
      this.canvas = document.createElement("canvas");
      this.canvas.width = this.canvas.height = SIDE;
      this.canvas.className = "tau-pad";
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute(
        "aria-label",
        "Drawing pad. Drag to draw. With the keyboard: arrow keys move the pen, space lowers or lifts it.",
      );
      this.byPointer();
      this.canvas.addEventListener("keydown", (event) => this.byKey(event));
      this.canvas.addEventListener("focus", () => this.paint());
      this.canvas.addEventListener("blur", () => {
        this.pen.down = false;
        this.paint();
      });
    }

    byPointer() {
      const { canvas } = this;
      const place = (event) => {
        const box = canvas.getBoundingClientRect();
        return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      };
      let active = null; // one finger draws; a second one is ignored
      canvas.addEventListener("pointerdown", (event) => {
        if (active !== null) return;
        active = event.pointerId;
        canvas.setPointerCapture(active);
        this.strokes.push([place(event)]);
        this.redraw();
      });
      canvas.addEventListener("pointermove", (event) => {
        if (event.pointerId !== active) return;
        const events = event.getCoalescedEvents?.() ?? []; // all that happened since the last frame
        this.strokes.at(-1).push(...(events.length ? events : [event]).map(place));
        this.redraw();
      });
      const lift = (event) => event.pointerId === active && (active = null);
      canvas.addEventListener("pointerup", lift);
      canvas.addEventListener("pointercancel", lift);
    }

    byKey(event) {
      const { pen } = this, way = STEPS[event.key], step = (event.shiftKey ? 4 : 1) / 28;
      if (event.key === " ") {
        pen.down = !pen.down;
        if (pen.down) this.strokes.push([[pen.x, pen.y]]);
      } else if (way) {
        pen.x = Math.min(1, Math.max(0, pen.x + way[0] * step));
        pen.y = Math.min(1, Math.max(0, pen.y + way[1] * step));
        if (pen.down) this.strokes.at(-1).push([pen.x, pen.y]);
      } else return;
      event.preventDefault();
      this.redraw();
    }

    clear() {
      this.strokes = [];
      this.pen.down = false;
      this.redraw();
    }

    redraw() {
      this.paint();
      if (this.strokes.length) this.changed(rasterise(this.strokes));
    }

    paint() {
      const { canvas, pen } = this, context = canvas.getContext("2d");
      context.fillStyle = "#000";
      context.fillRect(0, 0, SIDE, SIDE);
      Object.assign(context, { strokeStyle: "#fff", lineWidth: 18, lineCap: "round", lineJoin: "round" });
      for (const stroke of this.strokes) {
        context.beginPath();
        for (const [x, y] of [stroke[0], ...stroke]) context.lineTo(x * SIDE, y * SIDE);
        context.stroke();
      }
      if (canvas.matches(":focus-visible")) {
        Object.assign(context, { strokeStyle: pen.down ? "#e69f00" : "#56b4e9", lineWidth: 3 });
        context.beginPath();
        context.arc(pen.x * SIDE, pen.y * SIDE, 9, 0, 7);
        context.stroke();
      }
    }
  }

  return { Pad, rasterise, pack, unpack };
})();
window.TauDrawing = TauDrawing;
