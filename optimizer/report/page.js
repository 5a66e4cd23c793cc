// The page around the graphs. Every text from the data goes through textContent: names in a model
// are never read as markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// make("div.big", {title: …}, "text", child, …): an element with class, properties and children.
function make(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const part of rest) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node) element.append(part);
    else if (Array.isArray(part)) element.append(...part.filter(Boolean));
    else if (typeof part === "object") Object.assign(element, part);
    else element.append(String(part));
  }
  return element;
}

function formatTime(ns) {
  if (ns === null || ns === undefined) return "–";
  const digits = (value) => value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
    if (Math.abs(ns) >= scale * 0.9995) return `${digits(Math.abs(ns) / scale)} ${unit}`;
  return `${Math.abs(ns).toFixed(0)} ns`;
}

function formatChange(ns) {
  return Math.abs(ns) < 0.5 ? "0" : `${ns > 0 ? "+" : "−"}${formatTime(ns)}`;
}

function formatSize(bytes) {
  for (const [scale, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (bytes >= scale) return `${(bytes / scale).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

function formatSmall(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  return Math.abs(number) < 1e-3 ? number.toExponential(1).replace(".0e", "e") : number.toPrecision(2);
}

function formatSpeedup(ratio) {
  if (!ratio) return "–";
  if (Math.abs(ratio - 1) < 0.005) return "as fast";
  return ratio < 1 ? `${(1 / ratio).toFixed(2)}× faster` : `${ratio.toFixed(2)}× slower`;
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function table(headers, rows, limit = 60) {
  const body = make("tbody");
  const numeric = headers.map((header) => header.startsWith("#"));
  const addRow = (row) =>
    body.append(
      make("tr", row.map((cell, column) => make(numeric[column] ? "td.number" : "td", cell))),
    );
  rows.slice(0, limit).forEach(addRow);
  const head = headers.map((header, column) =>
    make(numeric[column] ? "th.number" : "th", { scope: "col" }, header.replace("#", "")),
  );
  const parts = [make("table", make("thead", make("tr", head)), body)];
  if (rows.length > limit) {
    const more = make("button.more", { type: "button" }, `Show all ${rows.length}`);
    more.onclick = () => {
      rows.slice(limit).forEach(addRow);
      more.remove();
    };
    parts.push(more);
  }
  return make("div.scroll", parts);
}

function section(id, title, under, ...content) {
  document.getElementById("nav").append(make("a", { href: "#" + id }, title));
  return make("section", { id }, make("h2", title), under && make("p.under", under), ...content);
}

// ---------------------------------------------------------------------------------- top

function chosenCandidate() {
  return (data.candidates ?? []).find((candidate) => candidate.candidate === data.chosen);
}

function tile(name, big, note, mood) {
  return make("div.tile", make("div.name", name), make("div.big" + (mood ? "." + mood : ""), big), make("div.note", note));
}

// The 95 % interval of a candidate's ratio; empty where few rounds make it worth nothing.
function ratioInterval(candidate) {
  const { ratio_low: low, ratio_high: high, samples } = candidate ?? {};
  return low && high && samples >= 5 ? [low, high] : [];
}

function headline() {
  const model = data.model ?? {};
  const options = data.options ?? {};
  const kept = data.chosen === "original";
  const tiles = [];
  const { latency_before: was, latency_after: now } = data;
  if (was && now) {
    const candidate = chosenCandidate();
    if (kept) {
      tiles.push(tile("Latency", formatTime(was.median_ns), `± ${formatTime(was.spread_ns)}; nothing was faster beyond the noise`));
    } else {
      const ratio = candidate?.ratio ?? now.median_ns / was.median_ns;
      const [low, high] = ratioInterval(candidate);
      const sure = low
        ? `95 % interval ${(1 / high).toFixed(2)}× to ${(1 / low).toFixed(2)}×, ${plural(candidate.samples, "round")}`
        : candidate?.ratio ? plural(candidate.samples, "round") : "ratio of medians";
      tiles.push(tile("Against the original", formatSpeedup(ratio), sure, ratio < 1 ? "good" : ""));
      tiles.push(tile("Latency", `${formatTime(was.median_ns)} → ${formatTime(now.median_ns)}`, `± ${formatTime(was.spread_ns)}, ± ${formatTime(now.spread_ns)}`));
    }
  }
  const accepted = (data.steps ?? []).filter((step) => step.accepted).length;
  tiles.push(
    tile(
      "Nodes",
      data.nodes_before === data.nodes_after ? String(data.nodes_after) : `${data.nodes_before} → ${data.nodes_after}`,
      kept ? "kept as it was" : `${plural(accepted, "step")} applied`,
    ),
  );
  const deviations = (data.deviations ?? []).filter((row) => row.candidate === data.chosen);
  if (deviations.length) {
    const worst = deviations.reduce((most, row) => (row.max_absolute > most.max_absolute ? row : most));
    const within = deviations.every((row) => row.within);
    tiles.push(
      tile(
        "Largest deviation",
        formatSmall(worst.max_absolute),
        within ? `within tolerance on ${plural(new Set(deviations.map((row) => row.distribution)).size, "input distribution")}` : "beyond tolerance",
        within ? "" : "bad",
      ),
    );
  }
  const facts = [
    [...new Set([model.size_bytes, data.size_after_bytes].filter(Boolean).map(formatSize))].join(" → "),
    options.target,
    options.threads && plural(options.threads, "thread"),
    data.device?.name,
    data.created_at?.replace("T", " ").replace(/\.\d+/, "").replace("+00:00", " UTC"),
  ].filter(Boolean);
  return make(
    "div",
    make("h1", model.name || model.path || "Model"),
    make("p.lede", data.verdict),
    make("p.lede.dim", facts.join(" · ")),
    make("div.tiles", tiles),
  );
}

// ------------------------------------------------------------------------------- graphs

const views = {};
let showSide = () => {};

function graphSection() {
  const { graphs } = data;
  if (!graphs) return null;
  const same = data.chosen === "original" && JSON.stringify(graphs.before) === JSON.stringify(graphs.after);
  const sides = same ? ["before"] : ["before", "after"];
  const detail = make("aside.detail", { hidden: true });
  const frames = Object.fromEntries(
    sides.map((side) => [
      side,
      make(
        "div.frame",
        make("canvas", { tabIndex: 0, ariaLabel: `Graph ${side}: ${plural(graphs[side].nodes.length, "node")}` }),
        make("div.side", same ? plural(graphs.before.nodes.length, "node") : `${side}: ${plural(graphs[side].nodes.length, "node")}`),
        make("div.wait", "laying out…"),
        make("div.hint", "click the graph first, or hold Ctrl, to zoom"),
      ),
    ]),
  );
  const show = (wanted) => {
    for (const side of sides) {
      frames[side].hidden = wanted !== "both" && wanted !== side;
      if (!frames[side].hidden && !views[side])
        views[side] = new GraphView(frames[side].querySelector("canvas"), graphs[side], side, (box, view) => showDetail(detail, box, view, graphs[side]));
    }
    // Both change their width: fit again once the frames have it.
    requestAnimationFrame(() => sides.forEach((side) => views[side]?.fit()));
  };
  let buttons = null;
  showSide = (side) => frames[side].hidden && buttons?.children[sides.indexOf(side)].click();
  const shown = () => sides.filter((side) => !frames[side].hidden).map((side) => views[side]);
  const tools = make("div.tools");
  if (!same) {
    const wanted = window.innerWidth < 900 ? "after" : "both";
    buttons = choice("Shown", { before: "Before", after: "After", both: "Both" }, wanted, show);
    tools.append(buttons);
    setTimeout(() => show(wanted), 0);
  } else {
    setTimeout(() => show("before"), 0);
  }
  tools.append(
    choice("Colour", { class: "By kind", cost: "By cost" }, "class", (paint) =>
      Object.values(views).forEach((view) => {
        view.paint = paint;
        view.draw();
      }),
    ),
    ...searchBox(shown),
  );
  if (!same) tools.append(...stepper("change", shown, (view) => view.changes));
  tools.append(make("span.space"), button("−", "Smaller", () => shown().forEach((view) => view.zoom(0.8))), button("+", "Larger", () => shown().forEach((view) => view.zoom(1.25))), button("Fit", "Fit to the window", () => shown().forEach((view) => view.fit())));
  const used = new Set(sides.flatMap((side) => graphs[side].nodes.map((node) => operatorClass(node.op))));
  const legend = make(
    "div.legend",
    Object.keys(CLASSES).filter((name) => used.has(name)).map((name) => make("span", dot(name), CLASSES[name][0])),
    !same && make("span", outline("removed", "dashed"), "removed by a rule"),
    !same && make("span", outline("added", "solid"), "made by a rule"),
  );
  return section(
    "graph",
    "Graph",
    same ? "Nothing was changed." : "The model before and after. Click a node for its attributes, shapes and cost, and for the rule that made or removed it.",
    make(
      "div.panel",
      tools,
      make("div.stage", sides.map((side) => frames[side]), detail),
      make("div.foot", legend, make("div.keys", "drag to move, click and wheel to zoom, / to search, ↑ ↓ along the edges, 0 to fit")),
    ),
  );
}

function dot(group) {
  const element = make("span.dot");
  element.style.background = `var(--${group})`;
  return element;
}

function outline(color, kind) {
  const element = make("span.dot");
  element.style.border = `2px ${kind} var(--${color})`;
  return element;
}

function button(text, title, onclick) {
  return make("button.quiet", { type: "button", title, ariaLabel: title, onclick }, text);
}

function choice(label, names, chosen, onChoose) {
  const group = make("div.choice", { role: "group", ariaLabel: label });
  for (const [value, text] of Object.entries(names)) {
    const item = make("button", { type: "button", ariaPressed: String(value === chosen) }, text);
    item.onclick = () => {
      for (const other of group.children) other.ariaPressed = String(other === item);
      onChoose(value);
    };
    group.append(item);
  }
  return group;
}

// "‹ 3 / 17 ›": walk through what `list(view)` names, over all graphs that are shown.
function stepper(word, shown, list) {
  let at = -1;
  const count = make("span.count");
  const places = () => shown().flatMap((view) => (view ? list(view).map((index) => [view, index]) : []));
  const tell = () => {
    const all = places().length;
    count.textContent = at < 0 ? plural(all, word) : `${at + 1} / ${all}`;
  };
  const go = (by) => {
    const all = places();
    if (!all.length) return;
    at = at < 0 && by < 0 ? all.length - 1 : (at + by + all.length) % all.length;
    const [view, index] = all[at];
    view.select(index, { reveal: true });
    tell();
  };
  setTimeout(tell, 30);
  const restart = () => {
    at = -1;
    tell();
  };
  const parts = [button("‹", `Previous ${word}`, () => go(-1)), count, button("›", `Next ${word}`, () => go(1))];
  parts.go = go;
  parts.restart = restart;
  return parts;
}

function searchBox(shown) {
  const input = make("input", { type: "search", placeholder: "Search name, operator, rule", ariaLabel: "Search the graph" });
  let found = new Map();
  const steps = stepper("match", shown, (view) => found.get(view) ?? []);
  steps.forEach((part) => (part.hidden = true));
  input.oninput = () => {
    found = new Map(Object.values(views).map((view) => [view, view.search(input.value)]));
    steps.forEach((part) => (part.hidden = !input.value.trim()));
    steps.restart();
  };
  input.onkeydown = (event) => {
    if (event.key === "Enter") steps.go(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      input.value = "";
      input.oninput();
      input.blur();
    }
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
      input.scrollIntoView({ block: "center" });
    }
  });
  return [input, ...steps];
}

function showDetail(panel, box, view, graph) {
  panel.replaceChildren();
  panel.hidden = !box;
  if (!box) return;
  const list = make("dl");
  const add = (term, ...parts) => list.append(make("dt", term), ...parts.map((part) => make("dd", part)));
  const close = make("button.quiet.close", { type: "button", title: "Close" }, "×");
  close.onclick = () => view.select(-1);
  const { node } = box;
  if (node) {
    if (node.rule) add(view.side === "before" ? "Removed by" : "Made by", make("span.tag", node.rule));
    if (node.cost_ns !== null && node.cost_ns !== undefined)
      add("Cost", `${node.cost_source === "bound" ? "at least " : ""}${formatTime(node.cost_ns)}${node.cost_source ? ` (${node.cost_source})` : ""}`);
    const value = (name) => {
      const constant = graph.constants?.[name];
      const parts = [make("code", name === "" ? "(absent)" : name)];
      if (constant) parts.push(make("span.dim", ` constant ${constant}`));
      return parts;
    };
    if (node.inputs.length) add("Inputs", ...node.inputs.map(value));
    const type = [node.dtype, shapeText(node.shape)].filter(Boolean).join(" ");
    add("Outputs", ...node.outputs.map((name, slot) => [make("code", name), make("span.dim", slot === 0 && type ? ` ${type}` : "")]));
    const attributes = Object.entries(node.attributes ?? {});
    if (attributes.length) add("Attributes", ...attributes.map(([name, text]) => [make("span.dim", `${name} = `), make("code", text)]));
  } else {
    add("Role", box.kind === "input" ? "input of the model" : "output of the model");
  }
  panel.append(close, make("h3", node ? node.op : box.title), make("div.name", make("code", box.name || "(no name)")), list);
}

// Show a node by name in whichever graph has it.
function nodeLink(name) {
  const side = ["before", "after"].find((which) => data.graphs?.[which].nodes.some((node) => node.name === name));
  if (!side || name === "") return make("code", name || "(no name)");
  const link = make("button.link.mono", { type: "button" }, name);
  link.onclick = () => {
    document.getElementById("graph").scrollIntoView();
    showSide(side);
    // A graph that was hidden is laid out first.
    const reveal = () => (views[side]?.ready ? views[side].select(views[side].indexOf(name), { reveal: true }) : setTimeout(reveal, 50));
    setTimeout(reveal, 50);
  };
  return link;
}

function nodeLinks(names, limit = 6) {
  const shown = names.slice(0, limit).flatMap((name, index) => [index > 0 && ", ", nodeLink(name)]);
  if (names.length > limit) shown.push(` and ${names.length - limit} more`);
  return make("span", ...shown);
}

// ----------------------------------------------------------------------------- sections

function operatorCosts() {
  if (data.operators) return data.operators;
  if (!data.graphs) return [];
  const costs = new Map();
  for (const side of ["before", "after"])
    for (const node of data.graphs[side].nodes) {
      const row = costs.get(node.op) ?? { op_type: node.op, calls_before: 0, calls_after: 0, before_ns: 0, after_ns: 0, bounded: false };
      row[`calls_${side}`] += 1;
      row[`${side}_ns`] += node.cost_ns ?? 0;
      costs.set(node.op, row);
    }
  return [...costs.values()];
}

function operatorSection() {
  const costs = operatorCosts().filter((row) => row.before_ns || row.after_ns);
  if (!costs.length) return null;
  costs.sort((a, b) => Math.max(b.before_ns, b.after_ns) - Math.max(a.before_ns, a.after_ns));
  const total = costs.reduce((sum, row) => sum + row.before_ns, 0) || 1;
  const most = Math.max(...costs.map((row) => Math.max(row.before_ns, row.after_ns)));
  const bars = make("div.bars");
  const addRow = (row) => {
    const before = make("div.bar");
    const after = make("div.bar");
    before.style.cssText = `width: ${(100 * row.before_ns) / most}%; background: var(--bar)`;
    after.style.cssText = `width: ${(100 * row.after_ns) / most}%; background: var(--${operatorClass(row.op_type)})`;
    if (!row.before_ns) before.style.visibility = "hidden";
    if (!row.after_ns) after.style.visibility = "hidden";
    const unchanged = row.before_ns === row.after_ns && row.calls_before === row.calls_after;
    if (unchanged) before.style.display = "none";
    const calls = row.calls_before === row.calls_after ? `${row.calls_after}×` : `${row.calls_before}× → ${row.calls_after}×`;
    bars.append(
      make(
        "div.row",
        make("div.what", dot(operatorClass(row.op_type)), make("span", row.op_type, make("span.dim", `  ${calls}`))),
        make("div", { title: "above before, below after" }, before, after),
        make("div.numbers", unchanged ? "" : `${formatTime(row.before_ns)} → `, make("b", row.after_ns ? (row.bounded ? "≥ " : "") + formatTime(row.after_ns) : "0"), make("span.dim", `  ${((100 * row.before_ns) / total).toFixed(0)} %`)),
      ),
    );
  };
  const shown = 14;
  costs.slice(0, shown).forEach(addRow);
  const panel = make("div.panel", bars);
  if (costs.length > shown) {
    const more = make("button.more", { type: "button" }, `Show all ${costs.length}`);
    more.onclick = () => {
      costs.slice(shown).forEach(addRow);
      more.remove();
    };
    panel.append(more);
  }
  return section("operators", "Where the time goes", "Kernel times on this machine, added up by operator: grey before, coloured after, one bar where nothing changed; the percentage is the share before. What ONNX Runtime fuses at load time costs less than the sum of its parts.", panel);
}

function stepSection() {
  const { steps } = data;
  if (!steps?.length) return null;
  const panel = make("div.panel");
  const groups = (wanted) => {
    const rules = new Map();
    for (const step of steps)
      if (step.accepted === wanted) rules.set(step.rule, [...(rules.get(step.rule) ?? []), step]);
    return rules;
  };
  for (const [wanted, title] of [[true, "Applied"], [false, "Tried and refused"]]) {
    const rules = groups(wanted);
    if (!rules.size) continue;
    panel.append(make("div.group", `${title}: ${plural([...rules.values()].flat().length, "step")} of ${plural(rules.size, "rule")}`));
    for (const [rule, fired] of rules) panel.append(stepGroup(rule, fired, wanted));
  }
  return section("steps", "Steps", "What was done to the graph, rule by rule, with the predicted change of the sum of kernel times. Open a rule for each place.", panel);
}

function stepGroup(rule, fired, accepted) {
  const saved = fired.reduce((sum, step) => sum + step.added - step.removed, 0);
  const priced = fired.every((step) => step.cost_before_ns !== null && step.cost_after_ns !== null);
  const change = fired.reduce((sum, step) => sum + step.cost_after_ns - step.cost_before_ns, 0);
  const rows = fired.map((step) => [
    step.position,
    nodeLinks(step.nodes),
    `−${step.removed} +${step.added}`,
    formatTime(step.cost_before_ns),
    formatTime(step.cost_after_ns),
    step.reason,
  ]);
  return make(
    "details",
    make(
      "summary",
      make("span.rule", rule, " ", fired[0].equal && make("span.tag.plain", fired[0].equal)),
      make("span.number", `${fired.length}×`),
      make("span.number.dim", accepted && saved ? `${saved > 0 ? "+" : "−"}${plural(Math.abs(saved), "node")}` : ""),
      make("span.number" + (priced && change < 0 && accepted ? ".good" : ""), priced ? formatChange(change) : ""),
      make("span.why", (accepted && fired[0].summary) || fired[0].reason),
    ),
    table(["#", "nodes", "#nodes", "#before", "#after", "reason"], rows),
  );
}

function candidateSection() {
  const { candidates } = data;
  if (!candidates?.length) return null;
  const reach = Math.max(0.02, ...candidates.flatMap((row) => [row.ratio, ...ratioInterval(row)]).filter((ratio) => ratio > 0).map((ratio) => Math.abs(1 / ratio - 1))) * 1.15;
  const place = (ratio) => 50 + (50 * (1 / ratio - 1)) / reach;
  const interval = (row) => {
    if (!row.ratio) return make("span.dim", "not measured");
    const picture = make("div.interval", make("div.zero"));
    picture.firstChild.style.left = "50%";
    const [low, high] = ratioInterval(row);
    const better = high < 1;
    const worse = low > 1;
    const color = row.candidate === "original" ? "--muted" : better ? "--good" : worse ? "--bad" : "--accent";
    if (low) {
      const range = make("div.range");
      range.style.cssText = `left: ${place(high)}%; width: ${place(low) - place(high)}%; background: var(${color})`;
      picture.append(range);
      picture.title = `95 % interval ${(1 / high).toFixed(3)}× to ${(1 / low).toFixed(3)}×`;
    }
    const point = make("div.point");
    point.style.cssText = `left: ${place(row.ratio)}%; background: var(${color})`;
    picture.append(point);
    return picture;
  };
  const rows = candidates.map((row) => [
    make("span", row.candidate, row.candidate === data.chosen && " ", row.candidate === data.chosen && make("span.tag", "written")),
    row.nodes,
    formatTime(row.predicted_ns),
    row.median_ns ? `${formatTime(row.median_ns)} ± ${formatTime(row.spread_ns)}` : "–",
    row.candidate === "original" ? "" : formatSpeedup(row.ratio),
    interval(row),
    row.samples,
    row.verdict,
  ]);
  return section("candidates", "Candidates", "The best plans and the original, run end to end in turns on this machine. The line marks the original; right of it is faster; the bar is the 95 % interval of the speedup.", make("div.panel", table(["candidate", "#nodes", "#predicted", "#measured", "#speedup", "against the original", "#rounds", "verdict"], rows)));
}

function deviationSection() {
  if (!data.deviations?.length) return null;
  const rows = data.deviations.map((row) => [
    row.candidate,
    row.distribution,
    make("code", row.output),
    formatSmall(row.max_absolute),
    formatSmall(row.max_relative),
    row.reference ?? "original",
    formatSmall(row.max_error),
    formatSmall(row.original_error ?? 0),
    formatSmall(row.tolerance),
    make("span." + (row.within ? "good" : "bad"), row.within ? "within" : "beyond"),
  ]);
  return section("deviations", "Deviation", "Largest difference from the original's outputs, on inputs of several distributions. The error, which the tolerance bounds, is the difference from the reference: the model in float64 where an output is not within a few units of the original's, which has an error of its own.", make("div.panel", table(["candidate", "inputs", "output", "#absolute", "#relative", "reference", "#error", "#the original's", "#tolerance", ""], rows, 20)));
}

function missSection() {
  if (!data.near_misses?.length) return null;
  const groups = new Map();
  for (const miss of data.near_misses) {
    const key = JSON.stringify([miss.rule, miss.condition]);
    groups.set(key, [...(groups.get(key) ?? []), miss]);
  }
  const panel = make("div.panel");
  for (const places of groups.values()) {
    const [{ rule, condition }] = places;
    const rows = places.map((miss) => {
      const detail = miss.detail ?? "";
      return [nodeLinks(miss.nodes), detail.startsWith(`${rule}: `) ? detail.slice(rule.length + 2) : detail];
    });
    panel.append(
      make(
        "details",
        make(
          "summary",
          make("span.rule", rule),
          make("span.number", `${places.length}×`),
          make("span"),
          make("span"),
          make("span.why", make("code", condition)),
        ),
        table(["nodes", "what broke it"], rows, 20),
      ),
    );
  }
  return section("misses", "Near misses", "Places where a rule would have matched, had one condition held. Open a condition for each place.", panel);
}

function machineSection() {
  const { device = {}, versions = {}, options = {}, model = {}, phases } = data;
  const facts = [];
  const add = (name, value) => value !== undefined && value !== null && value !== "" && facts.push(make("div", make("dt", name), make("dd", value)));
  add("Machine", device.name);
  add("Cores", device.cores);
  add("Memory", device.memory_bytes && formatSize(device.memory_bytes));
  add("Instruction set", device.instruction_set);
  add("Memory bandwidth", device.bandwidth_bytes_per_s && `${formatSize(device.bandwidth_bytes_per_s)}/s`);
  add("Peak", device.peak_flops_per_s && `${(device.peak_flops_per_s / 1e9).toPrecision(3)} GFLOP/s`);
  add("Target", options.target);
  if (data.target) add("Why this target", data.target.reason);
  if (data.opset_after !== data.opset_before) add("Operator set", `${data.opset_before} → ${data.opset_after}`);
  add("Threads", options.threads);
  add("Budget", options.budget_s !== undefined ? `${options.budget_s} s` : undefined);
  add("Allowed", options.allow?.join(", "));
  for (const [name, shape] of Object.entries(options.input_shapes ?? {})) add(`Input ${name}`, shapeText(shape));
  add("Producer", model.producer);
  for (const [domain, version] of Object.entries(model.opsets ?? {})) add(`Opset ${domain || "ai.onnx"}`, version);
  add("tensolog", data.tensolog);
  for (const [name, version] of Object.entries(versions)) add(name, version);
  const parts = [];
  if (phases && Object.keys(phases).length) {
    const total = Object.values(phases).reduce((sum, time) => sum + time, 0) || 1;
    const colors = Object.keys(CLASSES);
    const stack = make("div.stack");
    const legend = make("div.legend.pad");
    Object.entries(phases).forEach(([name, time], index) => {
      const color = colors[index % colors.length];
      const piece = make("div", { title: name });
      piece.style.cssText = `flex: ${time / total}; background: var(--${color})`;
      stack.append(piece);
      legend.append(make("span", dot(color), `${name} ${time.toFixed(1)} s`));
    });
    parts.push(stack, legend);
  }
  return section("machine", "Machine and run", "What was measured on, with what, and how long the optimization took.", make("div.panel", ...parts, make("dl.facts", facts)));
}

// ---------------------------------------------------------------------------------- go

function start() {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paint = (theme) => {
    root.dataset.theme = theme;
    forgetPalette();
    Object.values(views).forEach((view) => view.draw());
  };
  paint(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => paint(dark.matches ? "dark" : "light"));
  document.getElementById("theme").onclick = () => paint(root.dataset.theme === "dark" ? "light" : "dark");
  const sections = [headline, graphSection, operatorSection, stepSection, candidateSection, deviationSection, missSection, machineSection];
  document.getElementById("main").replaceChildren(...sections.map((build) => build()).filter(Boolean));
  document.body.dataset.state = "ready";
}

start();
