// A graph on a canvas: pan, zoom, search, select. Only what the window shows is drawn, so that
// thousands of nodes stay smooth.
"use strict";

const CLASSES = {
  contraction: ["Matrix product, convolution", /^(Conv|ConvTranspose|ConvInteger|FusedConv|QLinearConv|DeformConv|MatMul|FusedMatMul|MatMulInteger|QLinearMatMul|MatMulNBits|Gemm|FusedGemm|Einsum|LSTM|GRU|RNN|Attention|MultiHeadAttention|GroupQueryAttention)$/],
  activation: ["Activation", /^(Relu|LeakyRelu|PRelu|Sigmoid|HardSigmoid|HardSwish|Tanh|Gelu|FastGelu|QuickGelu|BiasGelu|Elu|Celu|Selu|Mish|Swish|Softplus|Softsign|ThresholdedRelu|Clip|Erf)$/],
  arithmetic: ["Arithmetic", /^(Add|Sub|Mul|Div|Mod|Pow|Sqrt|Reciprocal|Exp|Log|Neg|Abs|Sign|Floor|Ceil|Round|Min|Max|Sum|Mean|Sin|Cos|Tan|Asin|Acos|Atan|Sinh|Cosh|Asinh|Acosh|Atanh|And|Or|Xor|Not|Equal|Greater|GreaterOrEqual|Less|LessOrEqual|Where|Cast|CastLike|IsNaN|IsInf|Bitwise\w+|QuantizeLinear|DequantizeLinear|DynamicQuantizeLinear)$/],
  normalization: ["Normalization, softmax", /(Normalization|^LRN|^Softmax|^LogSoftmax|^Hardmax)$/],
  reduction: ["Reduction, pooling", /^(Reduce\w+|ArgMax|ArgMin|TopK|CumSum|\w*Pool|GlobalLpPool)$/],
  movement: ["Shape and layout", /^(Reshape|Transpose|Flatten|Squeeze|Unsqueeze|Expand|Tile|Pad|Concat|Split|Slice|Resize|Upsample|DepthToSpace|SpaceToDepth|ReorderInput|ReorderOutput|Identity)$/],
  selection: ["Gather and index", /^(Gather\w*|Scatter\w*|Shape|Size|NonZero|OneHot|Compress|Range|Constant|ConstantOfShape|EyeLike|Trilu|Unique|NonMaxSuppression|RoiAlign)$/],
  other: ["Other", /./],
};

function operatorClass(op) {
  const plain = op.slice(op.lastIndexOf(":") + 1);
  return Object.keys(CLASSES).find((name) => CLASSES[name][1].test(plain));
}

function shapeText(shape) {
  if (!shape) return "";
  return shape.length ? shape.join("×") : "scalar";
}

class GraphView {
  // `canvas` fills its parent; `onSelect(node | null)` is told what was clicked.
  constructor(canvas, graph, side, onSelect) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.side = side;
    this.onSelect = onSelect;
    this.paint = "class";
    this.selected = -1;
    this.hovered = -1;
    this.found = new Set();
    this.view = { x: 0, y: 0, scale: 1 };
    this.ready = false;
    this.pending = false;
    this.buildBoxes(graph);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.layout();
  }

  // ---------------------------------------------------------------- what is drawn

  buildBoxes(graph) {
    const boxes = [];
    const maker = new Map();
    const addBox = (box) => boxes.push(box) - 1;
    for (const name of graph.inputs)
      maker.set(name, addBox({ kind: "input", title: name, detail: "", name }));
    for (const node of graph.nodes) {
      const box = addBox({
        kind: "node",
        node,
        name: node.name,
        title: node.op.replace("com.microsoft", "ms"),
        detail: shapeText(node.shape),
        cost: node.cost_ns ?? 0,
        costText: node.cost_ns ? ({ bound: "≥ ", predicted: "≈ " }[node.cost_source] ?? "") + formatTime(node.cost_ns) : "",
        group: operatorClass(node.op),
      });
      for (const output of node.outputs) if (output !== "") maker.set(output, box);
    }
    const edges = [];
    const seen = new Set();
    const connect = (value, to) => {
      const from = maker.get(value);
      const key = from + ">" + to;
      if (from === undefined || from === to || seen.has(key)) return;
      seen.add(key);
      edges.push({ from, to, value });
    };
    boxes.forEach((box, index) => {
      if (box.kind === "node") for (const value of box.node.inputs) connect(value, index);
    });
    for (const name of graph.outputs)
      connect(name, addBox({ kind: "output", title: name, detail: "", name }));
    const measure = this.context;
    for (const box of boxes) {
      measure.font = TITLE_FONT;
      const title = measure.measureText(box.title).width;
      measure.font = DETAIL_FONT;
      const cost = box.costText ? measure.measureText(box.costText).width + 14 : 0;
      const detail = measure.measureText(box.detail).width;
      box.w = Math.min(260, Math.max(84, Math.ceil(Math.max(title + cost, detail)) + 28));
      box.h = box.detail ? 42 : 28;
    }
    this.boxes = boxes;
    this.edges = edges;
    this.mostCost = boxes.reduce((most, box) => Math.max(most, box.cost ?? 0), 0);
    this.changes = boxes.flatMap((box, index) => (box.node?.rule ? [index] : []));
    this.inputsOf = boxes.map(() => []);
    this.outputsOf = boxes.map(() => []);
    edges.forEach((edge, index) => {
      this.outputsOf[edge.from].push(index);
      this.inputsOf[edge.to].push(index);
    });
  }

  layout() {
    const task = {
      boxes: this.boxes.map(({ w, h }) => ({ w, h })),
      edges: this.edges.map(({ from, to }) => [from, to]),
    };
    const place = (placed) => this.place(placed);
    const here = () => setTimeout(() => place(layoutBoxes(task.boxes, task.edges)), 0);
    try {
      const code = document.getElementById("layout-code").textContent;
      const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      const worker = new Worker(address);
      worker.onmessage = (message) => {
        worker.terminate();
        URL.revokeObjectURL(address);
        place(message.data);
      };
      worker.onerror = () => {
        worker.terminate();
        here();
      };
      worker.postMessage(task);
    } catch (error) {
      here();
    }
  }

  place({ x, y, routes, width, height }) {
    this.boxes.forEach((box, index) => {
      box.x = x[index];
      box.y = y[index];
    });
    this.edges.forEach((edge, index) => {
      const from = this.boxes[edge.from];
      const to = this.boxes[edge.to];
      edge.far = routes[index] === null;
      edge.route = routes[index] ?? [
        { x: from.x, y: from.y + from.h / 2 },
        { x: to.x, y: to.y - to.h / 2 },
      ];
      edge.top = Math.min(...edge.route.map((point) => point.y));
      edge.bottom = Math.max(...edge.route.map((point) => point.y));
      edge.left = Math.min(...edge.route.map((point) => point.x));
      edge.right = Math.max(...edge.route.map((point) => point.x));
    });
    this.size = { width, height };
    this.ready = true;
    this.canvas.parentElement.classList.add("ready");
    this.resize();
    this.fit();
  }

  // -------------------------------------------------------------------- the window

  resize() {
    const frame = this.canvas.parentElement;
    const ratio = window.devicePixelRatio || 1;
    this.width = frame.clientWidth;
    this.height = frame.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    this.draw();
  }

  // All of a small graph; of a tall one its top, in a size that can be read.
  fit() {
    if (!this.ready || !this.width) return;
    const { width, height } = this.size;
    const whole = Math.min((this.width - 90) / width, (this.height - 40) / height, 1.2);
    const scale = whole >= 0.5 ? whole : 0.8;
    this.view.scale = scale;
    this.view.y = whole >= 0.5 ? (this.height - height * scale) / 2 : 20;
    this.centre(-this.view.y / scale, (this.height - this.view.y) / scale);
    this.draw();
  }

  // Long graphs drift sideways: bring the boxes between two heights to the middle.
  centre(top, bottom) {
    const near = this.boxes.filter((box) => box.y >= top && box.y <= bottom);
    if (!near.length) return;
    const left = Math.min(...near.map((box) => box.x - box.w / 2));
    const right = Math.max(...near.map((box) => box.x + box.w / 2));
    this.view.x = (this.width - 46) / 2 - ((left + right) / 2) * this.view.scale;
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(3, Math.max(0.02, this.view.scale * factor));
    const change = scale / this.view.scale;
    this.view.x = x - (x - this.view.x) * change;
    this.view.y = y - (y - this.view.y) * change;
    this.view.scale = scale;
    this.draw();
  }

  reveal(index, scale = Math.max(this.view.scale, 0.75)) {
    const box = this.boxes[index];
    if (!this.ready) return;
    this.view.scale = scale;
    this.view.x = (this.width - 46) / 2 - box.x * scale;
    this.view.y = this.height / 2 - box.y * scale;
    this.draw();
  }

  select(index, { reveal = false } = {}) {
    this.selected = index;
    this.onSelect(index < 0 ? null : this.boxes[index], this);
    this.resize(); // the details beside it may have opened
    if (reveal && index >= 0) this.reveal(index);
  }

  indexOf(name) {
    return this.boxes.findIndex((box) => box.kind === "node" && box.name === name);
  }

  // Boxes whose name, operator, rule or a value contains `text`; an empty text finds none.
  search(text) {
    const wanted = text.trim().toLowerCase();
    const matches = (box) =>
      [box.name, box.title, box.node?.op, box.node?.rule, ...(box.node?.outputs ?? [])].some(
        (part) => part && part.toLowerCase().includes(wanted),
      );
    this.found = new Set(
      wanted ? this.boxes.flatMap((box, index) => (matches(box) ? [index] : [])) : [],
    );
    this.draw();
    return [...this.found].sort((a, b) => this.boxes[a].y - this.boxes[b].y);
  }

  // ------------------------------------------------------------------------- events

  listen() {
    const { canvas } = this;
    let drag = null;
    const at = (event) => {
      const frame = canvas.getBoundingClientRect();
      return { x: event.clientX - frame.left, y: event.clientY - frame.top };
    };
    canvas.addEventListener("pointerdown", (event) => {
      const point = at(event);
      drag = { ...point, from: { ...this.view }, moved: false, map: point.x > this.mapLeft() };
      canvas.setPointerCapture(event.pointerId);
      if (drag.map) this.jump(point.y);
    });
    canvas.addEventListener("pointermove", (event) => {
      const point = at(event);
      if (drag?.map) {
        this.jump(point.y);
      } else if (drag) {
        if (Math.hypot(point.x - drag.x, point.y - drag.y) > 3) drag.moved = true;
        this.view.x = drag.from.x + point.x - drag.x;
        this.view.y = drag.from.y + point.y - drag.y;
        this.draw();
      } else {
        const hovered = this.hit(point);
        if (hovered !== this.hovered) {
          this.hovered = hovered;
          canvas.style.cursor = hovered >= 0 ? "pointer" : "grab";
          canvas.title = hovered >= 0 ? this.boxes[hovered].name : "";
          this.draw();
        }
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && !drag.map) this.select(this.hit(at(event)));
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener(
      "wheel",
      (event) => {
        // Until the graph is clicked, the wheel scrolls the page that it lies in.
        if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) {
          this.hint();
          return;
        }
        event.preventDefault();
        const point = at(event);
        // A mouse wheel and a pinch zoom; two fingers on a touchpad, or shift, move.
        const lines = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey || (!event.ctrlKey && event.deltaX !== 0)) {
          this.view.x -= event.deltaX * lines;
          this.view.y -= event.deltaY * lines;
          this.draw();
        } else {
          const step = Math.max(-80, Math.min(80, event.deltaY * lines));
          this.zoom(Math.exp(-step * (event.ctrlKey ? 0.01 : 0.003)), point.x, point.y);
        }
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  hint() {
    const hint = this.canvas.parentElement.querySelector(".hint");
    hint?.classList.add("shown");
    clearTimeout(this.hinted);
    this.hinted = setTimeout(() => hint?.classList.remove("shown"), 900);
  }

  key(event) {
    const neighbour = (edges, end) => edges.length && this.edges[edges[0]][end];
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.select(-1);
    else if (this.selected >= 0 && event.key === "ArrowUp" && this.inputsOf[this.selected].length)
      this.select(neighbour(this.inputsOf[this.selected], "from"), { reveal: true });
    else if (this.selected >= 0 && event.key === "ArrowDown" && this.outputsOf[this.selected].length)
      this.select(neighbour(this.outputsOf[this.selected], "to"), { reveal: true });
    else if (moves[event.key]) {
      this.view.x += moves[event.key][0];
      this.view.y += moves[event.key][1];
      this.draw();
    } else return;
    event.preventDefault();
  }

  hit(point) {
    if (!this.ready) return -1;
    const x = (point.x - this.view.x) / this.view.scale;
    const y = (point.y - this.view.y) / this.view.scale;
    return this.boxes.findIndex(
      (box) => Math.abs(x - box.x) <= box.w / 2 && Math.abs(y - box.y) <= box.h / 2,
    );
  }

  mapLeft() {
    return this.width - 46;
  }

  jump(y) {
    const part = Math.min(1, Math.max(0, (y - 10) / (this.height - 20)));
    const middle = part * this.size.height;
    this.view.y = this.height / 2 - middle * this.view.scale;
    this.centre(middle - this.height / 2 / this.view.scale, middle + this.height / 2 / this.view.scale);
    this.draw();
  }

  // ------------------------------------------------------------------------ drawing

  draw() {
    if (this.pending || !this.ready) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  render() {
    const { context, view, ratio } = this;
    const colors = palette();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const seen = {
      left: -view.x / view.scale,
      top: -view.y / view.scale,
      right: (this.width - view.x) / view.scale,
      bottom: (this.height - view.y) / view.scale,
    };
    const focus = this.selected >= 0 ? this.selected : this.hovered;
    for (const edge of this.edges) {
      if (edge.bottom < seen.top || edge.top > seen.bottom) continue;
      if (edge.right < seen.left - 400 || edge.left > seen.right + 400) continue;
      this.drawEdge(edge, edge.from === focus || edge.to === focus, colors);
    }
    this.boxes.forEach((box, index) => {
      if (box.y + box.h < seen.top || box.y - box.h > seen.bottom) return;
      if (box.x + box.w < seen.left || box.x - box.w > seen.right) return;
      this.drawBox(box, index, colors);
    });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawMap(colors, seen);
  }

  drawEdge(edge, focused, colors) {
    const { context, view } = this;
    const points = edge.route;
    const last = points[points.length - 1];
    context.globalAlpha = focused ? 1 : edge.far ? 0.18 : 0.75;
    context.strokeStyle = focused ? colors.accent : colors.edge;
    context.lineWidth = Math.max(focused ? 2 : 1.1, 0.6 / view.scale);
    context.beginPath();
    context.moveTo(points[0].x, points[0].y);
    if (edge.far) {
      const bend = Math.min(400, (last.y - points[0].y) / 3);
      context.bezierCurveTo(points[0].x + 60, points[0].y + bend, last.x + 60, last.y - bend, last.x, last.y);
    } else {
      for (let index = 1; index < points.length - 1; index += 1) {
        const next = points[index + 1];
        const end = index === points.length - 2;
        context.quadraticCurveTo(
          points[index].x,
          points[index].y,
          end ? next.x : (points[index].x + next.x) / 2,
          end ? next.y : (points[index].y + next.y) / 2,
        );
      }
      if (points.length === 2) context.lineTo(last.x, last.y);
    }
    context.stroke();
    if (view.scale > 0.35) {
      context.fillStyle = context.strokeStyle;
      context.beginPath();
      context.moveTo(last.x, last.y + 0.5);
      context.lineTo(last.x - 3.6, last.y - 7);
      context.lineTo(last.x + 3.6, last.y - 7);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  drawBox(box, index, colors) {
    const { context, view } = this;
    const left = box.x - box.w / 2;
    const top = box.y - box.h / 2;
    const color = box.kind === "node" ? colors[box.group] : colors.muted;
    const dimmed = this.found.size > 0 && !this.found.has(index);
    const small = view.scale < 0.28;
    context.globalAlpha = dimmed ? 0.25 : 1;
    context.beginPath();
    context.roundRect(left, top, box.w, box.h, box.kind === "node" ? 6 : box.h / 2);
    context.fillStyle = colors.surface;
    context.fill();
    if (this.paint === "cost" && box.kind === "node") {
      const heat = this.mostCost ? Math.sqrt(box.cost / this.mostCost) : 0;
      context.globalAlpha = (dimmed ? 0.25 : 1) * (0.1 + 0.8 * heat);
      context.fillStyle = colors.hot;
      context.fill();
      context.globalAlpha = dimmed ? 0.25 : 1;
    } else if (box.kind === "node") {
      context.globalAlpha = (dimmed ? 0.25 : 1) * (small ? 0.85 : 0.16);
      context.fillStyle = color;
      context.fill();
      context.globalAlpha = dimmed ? 0.25 : 1;
    }
    const chosen = index === this.selected;
    const changed = box.node?.rule;
    context.strokeStyle = chosen
      ? colors.accent
      : changed
        ? this.side === "before" ? colors.removed : colors.added
        : index === this.hovered ? colors.text : this.paint === "cost" ? colors.edge : color;
    context.lineWidth = chosen ? 3 : changed ? 2.2 : 1;
    context.setLineDash(changed && this.side === "before" && !chosen ? [5, 3] : []);
    context.stroke();
    context.setLineDash([]);
    if (!small) this.drawText(box, left, top, colors);
    context.globalAlpha = 1;
  }

  drawText(box, left, top, colors) {
    const { context, view } = this;
    context.textBaseline = "middle";
    context.font = TITLE_FONT;
    context.fillStyle = colors.text;
    const middle = box.detail ? top + 14.5 : top + box.h / 2 + 0.5;
    const cost = box.costText;
    const room = box.w - 24 - (cost ? context.measureText(cost).width + 4 : 0);
    context.fillText(fitText(context, box.title, room), left + 12, middle);
    if (view.scale < 0.42) return;
    context.font = DETAIL_FONT;
    context.fillStyle = colors.subtle;
    if (box.detail) context.fillText(fitText(context, box.detail, box.w - 24), left + 12, top + 30);
    if (cost) {
      context.textAlign = "right";
      context.fillText(cost, left + box.w - 11, middle);
      context.textAlign = "left";
    }
  }

  // The strip on the right: the whole graph, squeezed, with the window on it.
  drawMap(colors, seen) {
    const { context } = this;
    const left = this.mapLeft();
    const place = (y) => 10 + (y / this.size.height) * (this.height - 20);
    context.fillStyle = colors.surface;
    context.globalAlpha = 0.85;
    context.fillRect(left, 0, 46, this.height);
    context.globalAlpha = 1;
    const tall = Math.max(1.5, Math.min(6, (30 / this.size.height) * (this.height - 20)));
    this.boxes.forEach((box, index) => {
      if (box.kind !== "node") return;
      const x = left + 6 + (box.x / this.size.width) * 34;
      const heat = this.mostCost ? Math.sqrt(box.cost / this.mostCost) : 0;
      context.globalAlpha = this.paint === "cost" ? 0.08 + 0.92 * heat : 0.75;
      context.fillStyle = this.paint === "cost" ? colors.hot : colors[box.group];
      if (this.found.has(index) || box.node.rule) {
        context.globalAlpha = 1;
        context.fillStyle = this.found.has(index)
          ? colors.accent
          : this.side === "before" ? colors.removed : colors.added;
      }
      context.fillRect(x - 3, place(box.y) - tall / 2, 6, tall);
    });
    context.globalAlpha = 1;
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    const top = Math.max(2, place(seen.top));
    const bottom = Math.min(this.height - 2, place(seen.bottom));
    if (bottom > top) context.strokeRect(left + 2, top, 42, bottom - top);
  }
}

const TITLE_FONT = "600 12.5px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const DETAIL_FONT = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

function fitText(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = Math.floor((text.length * room) / context.measureText(text).width);
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > room) length -= 1;
  return text.slice(0, length) + "…";
}

let knownPalette = null;
function palette() {
  if (knownPalette) return knownPalette;
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "subtle", "muted", "surface", "edge", "accent", "hot", "added", "removed"];
  knownPalette = {};
  for (const name of [...names, ...Object.keys(CLASSES)])
    knownPalette[name] = style.getPropertyValue("--" + name).trim();
  return knownPalette;
}

function forgetPalette() {
  knownPalette = null;
}
