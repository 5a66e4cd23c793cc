// Positions for a graph's boxes, top to bottom in layers. Runs in a worker, or in the page where
// workers are refused. Needs `dagre` in scope.
"use strict";

// Edges over more layers than this are left out of the layout: each layer they cross would cost
// dagre one dummy node, and a mask that feeds every block of a transformer crosses them all.
const FAR = 24;
// Above this many boxes crossings are not minimized by dagre.
const DAGRE_LIMIT = 5000;
const GAP_X = 26;
const GAP_Y = 34;

// boxes: [{w, h}], edges: [[from, to]]. Returns {x: [], y: [] (centres), routes: [[{x, y}] | null]
// (null: far, to be drawn directly), width, height}.
function layoutBoxes(boxes, edges) {
  const ranks = longestPathRanks(boxes.length, edges);
  const near = edges.map(([from, to]) => ranks[to] - ranks[from] <= FAR);
  if (boxes.length <= DAGRE_LIMIT) {
    try {
      return layoutWithDagre(boxes, edges, near);
    } catch (error) {
      // A chain too long for dagre's recursion, for instance: layers do as well.
    }
  }
  return layoutInLayers(boxes, edges, ranks);
}

function longestPathRanks(count, edges) {
  const ranks = new Array(count).fill(0);
  const waiting = new Array(count).fill(0);
  const consumers = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    waiting[to] += 1;
    consumers[from].push(to);
  }
  const ready = [];
  waiting.forEach((inputs, box) => inputs === 0 && ready.push(box));
  for (let next = 0; next < ready.length; next += 1) {
    const box = ready[next];
    for (const consumer of consumers[box]) {
      ranks[consumer] = Math.max(ranks[consumer], ranks[box] + 1);
      waiting[consumer] -= 1;
      if (waiting[consumer] === 0) ready.push(consumer);
    }
  }
  return ranks;
}

function layoutWithDagre(boxes, edges, near) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, edgesep: 10, ranksep: GAP_Y });
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box, index) => graph.setNode(String(index), { width: box.w, height: box.h }));
  edges.forEach(([from, to], index) => {
    if (near[index]) graph.setEdge(String(from), String(to), {}, String(index));
  });
  dagre.layout(graph);
  const x = [];
  const y = [];
  boxes.forEach((box, index) => {
    const placed = graph.node(String(index));
    x.push(placed.x);
    y.push(placed.y);
  });
  const routes = edges.map(([from, to], index) =>
    near[index]
      ? graph.edge({ v: String(from), w: String(to), name: String(index) }).points.map((point) => ({
          x: point.x,
          y: point.y,
        }))
      : null,
  );
  return { x, y, routes, width: graph.graph().width, height: graph.graph().height };
}

function layoutInLayers(boxes, edges, ranks) {
  const layers = [];
  ranks.forEach((rank, box) => (layers[rank] ??= []).push(box));
  const inputs = boxes.map(() => []);
  for (const [from, to] of edges) inputs[to].push(from);
  const x = new Array(boxes.length).fill(0);
  const y = new Array(boxes.length).fill(0);
  let top = 0;
  let widest = 0;
  for (const layer of layers) {
    const mean = (box) =>
      inputs[box].reduce((sum, from) => sum + x[from], 0) / (inputs[box].length || 1);
    const wanted = new Map(layer.map((box) => [box, mean(box)]));
    layer.sort((a, b) => wanted.get(a) - wanted.get(b));
    const width = layer.reduce((sum, box) => sum + boxes[box].w + GAP_X, -GAP_X);
    const height = layer.reduce((most, box) => Math.max(most, boxes[box].h), 0);
    // Centre the layer under what feeds it, so that a chain runs straight down.
    let left = layer.reduce((sum, box) => sum + wanted.get(box), 0) / layer.length - width / 2;
    for (const box of layer) {
      x[box] = left + boxes[box].w / 2;
      y[box] = top + height / 2;
      left += boxes[box].w + GAP_X;
    }
    top += height + GAP_Y;
  }
  const leftmost = boxes.reduce((least, box, i) => Math.min(least, x[i] - box.w / 2), Infinity);
  boxes.forEach((box, index) => {
    x[index] -= leftmost;
    widest = Math.max(widest, x[index] + box.w / 2);
  });
  return { x, y, routes: edges.map(() => null), width: widest, height: top - GAP_Y };
}

if (typeof document === "undefined" && typeof self !== "undefined") {
  self.onmessage = (message) =>
    self.postMessage(layoutBoxes(message.data.boxes, message.data.edges));
}
