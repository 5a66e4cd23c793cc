// Positions for a graph's boxes, top to bottom in layers. Runs in a worker, or in the page where
// workers are refused. Needs `dagre` in scope.
"use strict";

// Edges over more layers than this are left out of the layout: each layer they cross would cost
// dagre one dummy node, and a mask that feeds every block of a transformer crosses them all.
const FAR = 24;
// Networks are long chains of blocks. They are cut where a single value passes, and laid out piece
// by piece: dagre's time grows faster than the graph, and its recursion with the graph's depth.
const PIECE = 120;
// Pieces that can't be cut to less than this are put in plain layers.
const DAGRE_LIMIT = 1200;
const GAP_X = 26;
const GAP_Y = 34;

// boxes: [{w, h}], edges: [[from, to]]. Returns {x: [], y: [] (centres), routes: [[{x, y}] | null]
// (null: far, to be drawn directly), width, height}.
function layoutBoxes(boxes, edges) {
  const ranks = longestPathRanks(boxes.length, edges);
  const near = edges.map(([from, to]) => ranks[to] - ranks[from] <= FAR);
  const layout = {
    x: new Array(boxes.length).fill(0),
    y: new Array(boxes.length).fill(0),
    routes: edges.map(() => null),
  };
  let top = 0;
  for (const piece of pieces(boxes.length, edges, near, ranks)) top = layoutPiece(boxes, edges, piece, layout, top);
  return normalized(boxes, layout);
}

// Cuts between layers: [{members, inner: [edge], port: box | -1, crossing: [edge]}], top to bottom.
// `port` is the one box above whose value passes into the piece, by the edges `crossing`.
function pieces(count, edges, near, ranks) {
  const depth = ranks.reduce((most, rank) => Math.max(most, rank), 0);
  const reach = ranks.slice(); // the last layer that each box feeds over near edges
  edges.forEach(([from, to], index) => {
    if (near[index]) reach[from] = Math.max(reach[from], ranks[to]);
  });
  const passing = new Array(depth + 2).fill(0);
  const members = Array.from({ length: depth + 1 }, () => []);
  ranks.forEach((rank, box) => {
    passing[rank] += 1;
    passing[reach[box]] -= 1;
    members[rank].push(box);
  });
  const pieceOf = new Array(count).fill(0);
  const found = [{ members: [], inner: [], port: -1, crossing: [] }];
  let across = 0;
  for (let rank = 0; rank <= depth; rank += 1) {
    const piece = found[found.length - 1];
    for (const box of members[rank]) {
      pieceOf[box] = found.length - 1;
      piece.members.push(box);
    }
    across += passing[rank];
    if (across <= 1 && piece.members.length >= PIECE && rank < depth)
      found.push({ members: [], inner: [], port: -1, crossing: [] });
  }
  edges.forEach(([from, to], index) => {
    if (!near[index]) return;
    const piece = found[pieceOf[to]];
    if (pieceOf[from] === pieceOf[to]) piece.inner.push(index);
    else {
      piece.port = from;
      piece.crossing.push(index);
    }
  });
  return found;
}

// Place one piece below `top`, its port under the box that feeds it; return where the next begins.
function layoutPiece(boxes, edges, piece, layout, top) {
  const local = new Map(piece.members.map((box, index) => [box, index]));
  const sizes = piece.members.map((box) => boxes[box]);
  if (piece.port >= 0) {
    local.set(piece.port, sizes.length);
    sizes.push({ w: boxes[piece.port].w, h: 1 });
  }
  const indices = [...piece.inner, ...piece.crossing];
  const links = indices.map((index) => edges[index].map((box) => local.get(box)));
  let placed = null;
  if (sizes.length <= DAGRE_LIMIT) {
    try {
      placed = layoutWithDagre(sizes, links);
    } catch (error) {
      // Too deep for dagre's recursion, for instance: layers do as well.
    }
  }
  placed ??= layoutInLayers(sizes, links);
  const port = local.get(piece.port);
  const dx = port === undefined ? 0 : layout.x[piece.port] - placed.x[port];
  // The port is no box: what follows it moves up to where its own gap begins.
  const dy = top - (port === undefined ? 0 : 1);
  let bottom = top;
  piece.members.forEach((box, index) => {
    layout.x[box] = placed.x[index] + dx;
    layout.y[box] = placed.y[index] + dy;
    bottom = Math.max(bottom, layout.y[box] + boxes[box].h / 2);
  });
  indices.forEach((edge, index) => {
    const route = placed.routes[index].map((point) => ({ x: point.x + dx, y: point.y + dy }));
    const [from] = edges[edge];
    if (from === piece.port) route[0] = { x: layout.x[from], y: layout.y[from] + boxes[from].h / 2 };
    layout.routes[edge] = route;
  });
  return bottom;
}

function normalized(boxes, { x, y, routes }) {
  let left = Infinity;
  let right = -Infinity;
  let bottom = 0;
  boxes.forEach((box, index) => {
    left = Math.min(left, x[index] - box.w / 2);
    right = Math.max(right, x[index] + box.w / 2);
    bottom = Math.max(bottom, y[index] + box.h / 2);
  });
  for (const route of routes) for (const point of route ?? []) point.x -= left;
  return { x: x.map((value) => value - left), y, routes, width: right - left, height: bottom };
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
  // What has no input goes right above what reads it first.
  const fed = new Set(edges.map(([, to]) => to));
  consumers.forEach((list, box) => {
    if (!fed.has(box) && list.length)
      ranks[box] = list.reduce((least, to) => Math.min(least, ranks[to]), Infinity) - 1;
  });
  return ranks;
}

function layoutWithDagre(boxes, edges) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, edgesep: 10, ranksep: GAP_Y });
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box, index) => graph.setNode(String(index), { width: box.w, height: box.h }));
  edges.forEach(([from, to], index) => graph.setEdge(String(from), String(to), {}, String(index)));
  dagre.layout(graph);
  const placed = boxes.map((box, index) => graph.node(String(index)));
  const routes = edges.map(([from, to], index) =>
    graph
      .edge({ v: String(from), w: String(to), name: String(index) })
      .points.map((point) => ({ x: point.x, y: point.y })),
  );
  return { x: placed.map((node) => node.x), y: placed.map((node) => node.y), routes };
}

function layoutInLayers(boxes, edges) {
  const layers = [];
  longestPathRanks(boxes.length, edges).forEach((rank, box) => (layers[rank] ??= []).push(box));
  const inputs = boxes.map(() => []);
  for (const [from, to] of edges) inputs[to].push(from);
  const x = new Array(boxes.length).fill(0);
  const y = new Array(boxes.length).fill(0);
  let top = 0;
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
  const routes = edges.map(([from, to]) => [
    { x: x[from], y: y[from] + boxes[from].h / 2 },
    { x: x[to], y: y[to] - boxes[to].h / 2 },
  ]);
  return { x, y, routes };
}

if (typeof document === "undefined" && typeof self !== "undefined") {
  self.onmessage = (message) =>
    self.postMessage(layoutBoxes(message.data.boxes, message.data.edges));
}
