/* The mathematics of the τ explorer: warps, latent actions, and a T-VAE in the browser.

   The warps follow tvae.transforms (clean geometry, bicubic) and the actions tvae.actions; a test
   compares all of it with the package. Images are Float32Arrays of 28·28 numbers in [0, 1], codes
   Float32Arrays of d numbers; a batch of n is one array, one after another. The networks run in
   TensorFlow.js on WebAssembly. Classic scripts throughout: a page opened from a disk may not load
   modules. */
"use strict";

const TauEngine = (() => {
  const SIZE = 28;
  const PIXELS = SIZE * SIZE;

  /* ---- Transformations: 3×3 matrices, row by row, that map output points to input points ---- */

  const aboutCentre = (a, b, c, d) => {
    const m = SIZE / 2;
    return [a, b, m - a * m - b * m, c, d, m - c * m - d * m, 0, 0, 1];
  };
  const radians = (degrees) => (degrees * Math.PI) / 180;

  /* Each family: its matrix for a value v, along one of its directions. The inverse has −v. */
  const families = {
    rotation: {
      directions: ["about the centre"],
      unit: "°",
      matrix(v) {
        const cos = Math.cos(radians(v)), sin = Math.sin(radians(v));
        const zoom = Math.abs(cos) + Math.abs(sin); // fills the frame again
        return aboutCentre(cos / zoom, -sin / zoom, sin / zoom, cos / zoom);
      },
    },
    tilt: {
      directions: ["left–right", "top–bottom"],
      unit: " px",
      matrix(v, axis) {
        const p = Math.abs(v), s = 1 / SIZE, f = 2 / SIZE; // one edge grows by 2p pixels
        if (axis === 0)
          return v >= 0
            ? [1, 0, 0, -p * s, 1, p, -p * f * s, 0, 1 + p * f]
            : [1 + p * f, 0, 0, p * s, 1, 0, p * f * s, 0, 1];
        return v >= 0
          ? [1, -p * s, p, 0, 1, 0, 0, -p * f * s, 1 + p * f]
          : [1, p * s, 0, 0, 1 + p * f, 0, 0, p * f * s, 1];
      },
    },
    shear: {
      directions: ["rows", "columns"],
      unit: "°",
      matrix(v, axis) {
        const slide = Math.tan(radians(v)), zoom = 1 + Math.abs(slide);
        return axis === 0
          ? aboutCentre(1 / zoom, slide / zoom, 0, 1 / zoom)
          : aboutCentre(1 / zoom, 0, slide / zoom, 1 / zoom);
      },
    },
    translation: {
      directions: ["sideways", "up and down"],
      unit: " px",
      matrix: (v, axis) => (axis === 0 ? [1, 0, -v, 0, 1, 0, 0, 0, 1] : [1, 0, 0, 0, 1, -v, 0, 0, 1]),
    },
    scale: {
      directions: ["both ways", "sideways", "up and down"],
      unit: " ×",
      matrix(v, axis) {
        const s = Math.exp(-v);
        return aboutCentre(axis === 2 ? 1 : s, 0, 0, axis === 1 ? 1 : s);
      },
    },
  };

  const product = (a, b) =>
    Array.from({ length: 9 }, (_, k) => {
      const i = 3 * Math.floor(k / 3), j = k % 3;
      return a[i] * b[j] + a[i + 1] * b[j + 3] + a[i + 2] * b[j + 6];
    });

  const IDENTITY = [1, 0, 0, 0, 1, 0, 0, 0, 1];
  const power = (m, k) => (k === 0 ? IDENTITY : product(m, power(m, k - 1)));

  /* The weights of four neighbours at distance t from the second; −0.75 is PyTorch's constant. */
  const A = -0.75;
  const cubic = (t, w) => {
    const far = (s) => ((A * s - 5 * A) * s + 8 * A) * s - 4 * A;
    const near = (s) => ((A + 2) * s - (A + 3)) * s * s + 1;
    w[0] = far(t + 1);
    w[1] = near(t);
    w[2] = near(1 - t);
    w[3] = far(2 - t);
  };
  const across = new Float64Array(4), down = new Float64Array(4);

  /* One image, read where the matrix says; black outside, clamped to [0, 1]. */
  function warp(image, m, into = new Float32Array(PIXELS)) {
    if (m.every((v, k) => v === IDENTITY[k])) {
      into.set(image);
      return into;
    }
    for (let row = 0, n = 0; row < SIZE; row++) {
      for (let column = 0; column < SIZE; column++, n++) {
        const X = column + 0.5, Y = row + 0.5;
        // at or behind the horizon there is nothing to see: a tiny S leads far outside
        const S = Math.max(m[6] * X + m[7] * Y + m[8], 1e-12);
        const u = (m[0] * X + m[1] * Y + m[2]) / S - 0.5;
        const v = (m[3] * X + m[4] * Y + m[5]) / S - 0.5;
        if (!(u > -3 && v > -3 && u < SIZE + 2 && v < SIZE + 2)) {
          into[n] = 0;
          continue;
        }
        const left = Math.floor(u), top = Math.floor(v);
        cubic(u - left, across);
        cubic(v - top, down);
        let sum = 0;
        for (let i = 0; i < 4; i++) {
          const y = top - 1 + i;
          if (y < 0 || y >= SIZE) continue;
          for (let j = 0; j < 4; j++) {
            const x = left - 1 + j;
            if (x >= 0 && x < SIZE) sum += down[i] * across[j] * image[y * SIZE + x];
          }
        }
        into[n] = Math.min(1, Math.max(0, sum));
      }
    }
    return into;
  }

  /* ---- Latent actions: r(z, τ) for n codes and one τ; sign −1 stands for τ⁻¹ ---- */

  const overCodes = (model, z, rule) => {
    const d = model.d, out = new Float32Array(z.length);
    for (let n = 0; n < z.length; n += d) rule(z.subarray(n, n + d), out.subarray(n, n + d));
    return out;
  };

  const rotateBlocks = (z, angles, sign, out) => {
    for (let k = 0; k < angles.length; k++) {
      const cos = Math.cos(angles[k]), sin = sign * Math.sin(angles[k]);
      const a = z[2 * k], b = z[2 * k + 1];
      out[2 * k] = cos * a - sin * b;
      out[2 * k + 1] = sin * a + cos * b;
    }
  };

  const actions = {
    A: (model, z, tau, sign) =>
      overCodes(model, z, (from, to) => from.forEach((v, k) => (to[k] = v + sign * tau[k]))),
    M: (model, z, tau, sign) =>
      overCodes(model, z, (from, to) => rotateBlocks(from, tau, sign, to)),
    /* The printed inverse, R(−θ)(z + b), or the true one, R(−θ)(z − b). */
    MA: (model, z, tau, sign) =>
      overCodes(model, z, (from, to) => {
        const b = model.vectors.b, offset = model.options.inverse === "true" ? -1 : 1;
        if (sign > 0) {
          rotateBlocks(from, tau, 1, to);
          to.forEach((v, k) => (to[k] = v + b[k]));
        } else rotateBlocks(from.map((v, k) => v + offset * b[k]), tau, -1, to);
      }),
    /* τ lists the diagonal, the upper and the lower band; the transpose stands for the inverse. */
    T: (model, z, tau, sign) =>
      overCodes(model, z, (from, to) => {
        const d = model.d, b = model.vectors.b;
        const upper = sign > 0 ? d : 2 * d - 1, lower = sign > 0 ? 2 * d - 1 : d;
        const input = sign > 0 ? from : from.map((v, k) => v + b[k]);
        for (let k = 0; k < d; k++) {
          let sum = tau[k] * input[k] + (sign > 0 ? b[k] : 0);
          if (k + 1 < d) sum += tau[upper + k] * input[k + 1];
          if (k > 0) sum += tau[lower + k - 1] * input[k - 1];
          to[k] = sum;
        }
      }),
    N: (model, z, tau, sign) => {
      const d = model.d, n = z.length / d, both = new Float32Array(2 * z.length);
      for (let i = 0; i < n; i++) {
        both.set(z.subarray(i * d, (i + 1) * d), 2 * i * d);
        for (let k = 0; k < d; k++) both[(2 * i + 1) * d + k] = sign * tau[k];
      }
      return model.run("chi", both, n);
    },
  };

  /* ---- Networks ---- */

  function bytesOf(base64) {
    const text = atob(base64), out = new Uint8Array(text.length);
    for (let k = 0; k < out.length; k++) out[k] = text.charCodeAt(k);
    return out;
  }

  /* Half to single precision, by a table of all 65,536 numbers, made once. */
  let table = null;
  function singles(base64) {
    if (!table) {
      table = new Float32Array(65536);
      for (let h = 0; h < 65536; h++) {
        const sign = h & 0x8000 ? -1 : 1, exponent = (h >> 10) & 31, fraction = h & 1023;
        table[h] =
          exponent === 0
            ? sign * fraction * 2 ** -24
            : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
      }
    }
    const bytes = bytesOf(base64), out = new Float32Array(bytes.length / 2);
    for (let k = 0; k < out.length; k++) out[k] = table[bytes[2 * k] | (bytes[2 * k + 1] << 8)];
    return out;
  }

  /* Make the library ready, with its WebAssembly from memory instead of by a request. */
  async function start(wasmBase64) {
    const file = "data:application/wasm;base64," + wasmBase64;
    tf.wasm.setWasmPaths(
      {
        "tfjs-backend-wasm.wasm": file,
        "tfjs-backend-wasm-simd.wasm": file,
        "tfjs-backend-wasm-threaded-simd.wasm": file,
      },
      true,
    );
    tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", false); // its other file is not shipped
    if (!(await tf.env().getAsync("WASM_HAS_SIMD_SUPPORT")))
      throw new Error("This browser is too old for the model: its WebAssembly lacks SIMD.");
    if (!(await tf.setBackend("wasm"))) throw new Error("This browser cannot run WebAssembly.");
    await tf.ready();
  }

  /* Lay out cells (n, h, w, 4c) of 2×2 pixels and cut off the rim: (n, 2h − 2, 2w − 2, c). By hand,
     since depthToSpace and slice of the library take several times as long. */
  function spread(x) {
    const [n, h, w, channels] = x.shape, c = channels / 4;
    const from = x.dataSync(), H = 2 * h - 2, W = 2 * w - 2, to = new Float32Array(n * H * W * c);
    for (let i = 0, at = 0; i < n; i++)
      for (let y = 1; y <= H; y++)
        for (let column = 1; column <= W; column++, at += c) {
          const cell = ((i * h + (y >> 1)) * w + (column >> 1)) * channels;
          const start = cell + (2 * (y & 1) + (column & 1)) * c;
          for (let k = 0; k < c; k++) to[at + k] = from[start + k];
        }
    return tf.tensor(to, [n, H, W, c], "float32");
  }

  class Model {
    constructor(content) {
      const { name, action, residual, options, d, tauSize } = content;
      Object.assign(this, { name, action, residual, options, d, tauSize });
      if (!(action in actions)) throw new Error(`This page does not know the action ${action}.`);
      const numbers = singles(content.weights);
      const slice = ({ at, shape }) => numbers.subarray(at, at + shape.reduce((a, b) => a * b, 1));
      const tensor = (place) => tf.tensor(slice(place).slice(), place.shape, "float32");
      this.vectors = {};
      for (const [key, place] of Object.entries(content.vectors))
        this.vectors[key] = slice(place).slice();
      this.networks = {};
      for (const [key, layers] of Object.entries(content.networks))
        this.networks[key] = layers.map((layer) => ({
          ...layer,
          kernel: tensor(layer.kernel),
          bias: tensor(layer.bias),
        }));
    }

    /* n inputs through one network; `shape` is that of a single input. */
    run(name, input, n, shape = [input.length / n]) {
      return tf.tidy(() => {
        let x = tf.tensor(input, [n, ...shape], "float32");
        for (const layer of this.networks[name]) {
          const activation = layer.relu ? "relu" : "linear";
          if (layer.kind === "dense") {
            const a = x.rank === 2 ? x : tf.reshape(x, [n, -1]);
            x = tf.fused.matMul({ a, b: layer.kernel, bias: layer.bias, activation });
            if (layer.reshape) x = tf.reshape(x, [n, ...layer.reshape]);
          } else {
            if (x.rank === 2) x = tf.reshape(x, [n, 1, 1, x.shape[1]]);
            x = tf.fused.conv2d({
              x,
              filter: layer.kernel,
              strides: layer.stride,
              pad: layer.padding,
              dimRoundingMode: "floor",
              bias: layer.bias,
              activation,
            });
            if (layer.shuffle) x = spread(x);
          }
        }
        return x.dataSync().slice();
      });
    }

    /* The first d of every 2d numbers: the means. */
    means(moments, n) {
      const out = new Float32Array(n * this.d);
      for (let i = 0; i < n; i++)
        out.set(moments.subarray(2 * i * this.d, (2 * i + 1) * this.d), i * this.d);
      return out;
    }

    /* The means of q_φ(z|x) of n images. */
    encode(images) {
      const n = images.length / PIXELS;
      return this.means(this.run("encoder", images, n, [SIZE, SIZE, 1]), n);
    }

    /* The mean of q_ψ(z|z₁, z₂) and τ = f_ξ(z₁, z₂), of one image's two views. */
    posterior(z1, z2) {
      const both = join([z1, z2]);
      return { z: this.means(this.run("psi", both, 1), 1), tau: this.run("xi", both, 1) };
    }

    /* r(z, τ), or r(z, τ⁻¹) for sign −1, of n codes. */
    act(z, tau, sign = 1) {
      const moved = actions[this.action](this, z, tau, sign);
      return this.residual ? moved.map((v, k) => v + z[k]) : moved;
    }

    /* The same k times. */
    actTimes(z, tau, sign, k) {
      for (; k > 0; k--) z = this.act(z, tau, sign);
      return z;
    }

    /* n codes to n images of probabilities. */
    decode(z) {
      const logits = this.run("decoder", z, z.length / this.d);
      return logits.map((v) => 1 / (1 + Math.exp(-v)));
    }
  }

  /* Arrays one after another, as a batch. */
  function join(arrays) {
    const out = new Float32Array(arrays.reduce((n, a) => n + a.length, 0));
    let at = 0;
    for (const a of arrays) {
      out.set(a, at);
      at += a.length;
    }
    return out;
  }

  return { SIZE, PIXELS, families, actions, warp, power, product, bytesOf, start, Model, join };
})();
window.TauEngine = TauEngine;
