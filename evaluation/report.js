// Everything that the page shows comes from the report in the element #report, which is report.json word for word.

const report = JSON.parse(document.getElementById("report").textContent);
const decoders = report.decoders;
const NONE = "–";
const PAGE = 12; // sentences in the list at a time

// ---- numbers ----

function number(value, digits = 2) {
  if (value === null || value === undefined) return NONE;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
function significant(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return number(value, Math.min(digits, 6));
}
const signed = (value, digits = 2) => (value === null ? NONE : (value >= 0 ? "+" : "−") + number(Math.abs(value), digits));
const interval = (d) => (d.difference === null || d.low === null ? NONE
  : [signed(d.difference), html("span", { class: "range" }, ` [${signed(d.low)}, ${signed(d.high)}]`)]);
const base = (path) => String(path || "").split(/[\\/]/).at(-1);
const plural = (count, word) => `${number(count, 0)} ${word}${count === 1 ? "" : "s"}`;

const colour = (i) => `var(--c${i % 10})`;

// ---- tables ----

// A column: title, value(row) for sorting, shown(row) for reading, best: "high" or "low" to mark the best entry.
function sortableTable(name, columns, rows, latex = true) {
  const body = html("tbody");
  const heads = columns.map((column, i) =>
    html("th", { scope: "col", title: column.help }, html("button", { type: "button", onclick: () => sort(i) }, column.title)));
  const best = columns.map((column) => {
    const values = rows.map(column.value).filter((v) => typeof v === "number");
    return !column.best || values.length < 2 ? null : column.best === "high" ? Math.max(...values) : Math.min(...values);
  });
  let order = { column: -1, down: true };
  function fill(sorted) {
    body.replaceChildren(...sorted.map((row) => html("tr", {}, columns.map((column, i) => {
      const cell = html(i ? "td" : "th", i ? {} : { scope: "row" }, column.shown ? column.shown(row) : number(column.value(row)));
      if (best[i] !== null && column.value(row) === best[i]) cell.classList.add("top");
      return cell;
    }))));
  }
  function sort(i) {
    const text = typeof columns[i].value(rows[0]) === "string";
    order = { column: i, down: order.column === i ? !order.down : !text };
    heads.forEach((head, k) => head.removeAttribute("aria-sort"));
    heads[i].setAttribute("aria-sort", order.down ? "descending" : "ascending");
    const missing = (v) => v === null || v === undefined;
    fill([...rows].sort((a, b) => {
      const [x, y] = [columns[i].value(a), columns[i].value(b)];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const less = text ? x.localeCompare(y) : x - y;
      return order.down ? -less : less;
    }));
  }
  fill(rows);
  const table = html("table", { id: `table-${name}` }, html("thead", {}, html("tr", {}, heads)), body);
  return html("div", {}, html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, table),
    latex ? latexOf(table) : null);
}

function latexOf(table) {
  const escape = (text) => text.replace(/\s+/g, " ").trim().replace(/[\\&%$#_{}]/g, (c) => (c === "\\" ? "\\textbackslash{}" : "\\" + c))
    .replace(/−/g, "$-$").replace(/±/g, "$\\pm$").replace(/–/g, "--");
  const area = html("textarea", { readonly: true, "aria-label": "The table in LaTeX", spellcheck: "false" });
  const details = html("details", { ontoggle: () => {
    const lines = [...table.rows].map((row) => [...row.cells].map((cell) => escape(cell.innerText)).join(" & ") + " \\\\");
    lines.splice(1, 0, "\\midrule");
    area.value = `\\begin{tabular}{l${"r".repeat(table.rows[0].cells.length - 1)}}\n\\toprule\n${lines.join("\n")}\n\\bottomrule\n\\end{tabular}`;
  } }, html("summary", {}, "LaTeX"), area);
  return details;
}

// A name that may go on in the next line after _, ( or a comma.
const breakable = (name) => name.split(/(?<=[_(,])/).flatMap((piece, i) => (i ? [html("wbr"), piece] : [piece]));
const nameColumn = {
  title: "decoder", value: (d) => d.name,
  shown: (d) => [html("span", { class: "dot", style: `background:${colour(decoders.indexOf(d))}` }), ...breakable(d.name),
    d.failures.count ? html("span", { class: "soft" }, ` on ${number(d.sentences, 0)} sentences`) : null],
};

// ---- plots ----

const SHAPES = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 4.5 }),
  (x, y) => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
  (x, y) => svg("polygon", { points: `${x},${y - 5.2} ${x + 5},${y + 4} ${x - 5},${y + 4}` }),
  (x, y) => svg("polygon", { points: `${x},${y - 5.6} ${x + 5.6},${y} ${x},${y + 5.6} ${x - 5.6},${y}` }),
  (x, y) => svg("polygon", { points: `${x},${y + 5.2} ${x + 5},${y - 4} ${x - 5},${y - 4}` }),
];
function marker(i, x, y) {
  const shape = SHAPES[i % SHAPES.length](x, y);
  shape.setAttribute("style", `fill:${colour(i)};stroke:var(--bg);stroke-width:1;paint-order:stroke`);
  return shape;
}

function ticksOf(low, high, log, most) {
  if (log) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const f of high / low < 5 ? [1, 1.5, 2, 3, 5, 7] : high / low < 30 ? [1, 2, 5] : high / low < 1000 ? [1, 3] : [1]) ticks.push(f * 10 ** e);
    return ticks.filter((t) => t >= low * 0.999 && t <= high * 1.001);
  }
  const raw = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) ticks.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return ticks;
}
function short(value) {
  if (Math.abs(value) >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (Math.abs(value) >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return (+value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

// series: {name, index, points: [{x, y, title}], line, labelled, dash}; axes: {label, log, names}.
function plot(title, x, y, series, height = 340) {
  const figure = html("figure", {});
  figure.draw = () => {
    const width = Math.max(300, figure.clientWidth || 700);
    const shown = series.map((s) => ({ ...s, points: s.points.filter((p) => p.y !== null && p.y !== undefined && !(y.log && p.y <= 0)) }));
    const points = shown.flatMap((s) => s.points);
    if (!points.length) return figure.replaceChildren(html("p", { class: "note" }, "Nothing to show."));
    const range = (axis, key) => {
      if (axis.names) return [-0.35, axis.names.length - 0.65];
      const values = points.flatMap((p) => [p[key], ...(p[`${key}s`] || [])]);
      let [low, high] = [Math.min(...values), Math.max(...values)];
      if (axis.log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.06, high * (high / low) ** 0.06];
      const room = (high - low || Math.abs(high) * 0.01 || 1) * 0.08;
      const percent = axis.percent;
      return [Math.max(low - room, low >= 0 ? 0 : -Infinity), percent ? Math.max(Math.min(high + room, 100.4), high) : high + room];
    };
    const [x0, x1] = range(x, "x"), [y0, y1] = range(y, "y");
    const yTicks = ticksOf(y0, y1, y.log, height / 60);
    const left = 14 + 7 * Math.max(...yTicks.map((t) => short(t).length)), right = 14, top = 26, bottom = 44;
    const scale = (v, low, high, log) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const px = (v) => left + scale(v, x0, x1, x.log) * (width - left - right);
    const py = (v) => height - bottom - scale(v, y0, y1, y.log) * (height - bottom - top);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
    root.append(svg("text", { class: "axis", x: 0, y: 12 }, y.label),
      svg("text", { class: "axis", x: width - right, y: height - 6, "text-anchor": "end" }, x.label));
    for (const t of yTicks) root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: py(t), y2: py(t) }),
      svg("text", { class: "tick", x: left - 7, y: py(t) + 4, "text-anchor": "end" }, short(t)));
    const xTicks = x.names ? x.names.map((_, i) => i) : ticksOf(x0, x1, x.log, width / 90);
    for (const t of xTicks) root.append(
      svg("text", { class: "tick", x: px(t), y: height - bottom + 18, "text-anchor": "middle" }, x.names ? x.names[t] : short(t)));
    const labels = [];
    for (const s of shown) {
      const i = s.index;
      if (s.line && s.points.length > 1) root.append(svg("polyline", {
        points: s.points.map((p) => `${px(p.x)},${py(p.y)}`).join(" "),
        style: `fill:none;stroke:${s.plain ? "var(--soft)" : colour(i)};stroke-width:${s.plain ? 1 : 1.8};stroke-linejoin:round`,
        "stroke-dasharray": s.dash || null }));
      for (const p of s.points) {
        if (s.plain) continue;
        const whisker = (x1, x2, y1, y2) => root.append(svg("line", { class: "whisker", x1, x2, y1, y2, style: `stroke:${colour(i)}` }));
        if (p.xs) whisker(px(Math.max(p.xs[0], x0)), px(Math.min(p.xs[1], x1)), py(p.y), py(p.y));
        if (p.ys) whisker(px(p.x), px(p.x), py(Math.max(p.ys[0], y0)), py(Math.min(p.ys[1], y1)));
        const point = svg("g", {}, svg("title", {}, p.title), marker(i, px(p.x), py(p.y)));
        root.append(point);
        if (s.labelled) labels.push({ x: px(p.x), y: py(p.y), text: p.text || s.name, above: s.line });
      }
    }
    const lines = shown.filter((s) => s.line && !s.plain).map((s) => s.points.map((p) => [px(p.x), py(p.y)]));
    place(root, labels, width, height - bottom, lines);
    const legend = series.filter((s) => s.line && !s.plain && !s.hidden);
    figure.replaceChildren(root, legend.length < 2 ? "" : html("div", { class: "legend" }, legend.map((s) =>
      html("span", {}, svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, marker(s.index, 7, 7)), s.name))), saveLink(root, title));
  };
  return figure;
}

// Labels next to their points, moved until they cover neither each other nor a point nor a line.
function place(root, labels, width, bottom, lines) {
  const around = (x, y, r) => ({ x0: x - r, x1: x + r, y0: y - r, y1: y + r });
  const taken = labels.map((l) => around(l.x, l.y, 6));
  for (const line of lines) for (let k = 1; k < line.length; k++) {
    const [[x0, y0], [x1, y1]] = [line[k - 1], line[k]], steps = Math.ceil(Math.hypot(x1 - x0, y1 - y0) / 5);
    for (let i = 0; i <= steps; i++) taken.push(around(x0 + ((x1 - x0) * i) / steps, y0 + ((y1 - y0) * i) / steps, 1));
  }
  for (const label of [...labels].sort((a, b) => a.y - b.y)) {
    const wide = widthOf(label.text, 12) + 4;
    const tries = label.above ? [[label.x - wide / 2, -10], [label.x - wide / 2, 20]] : [];
    for (const dy of [4, -10, 18, -24, 32, -38, 46, 60, -52])
      tries.push([label.x + 9, dy], [label.x - 9 - wide, dy], [label.x - wide / 2, dy > 0 ? dy + 8 : dy - 2]);
    const free = ([x, dy]) => {
      const box = { x0: x, x1: x + wide, y0: label.y + dy - 11, y1: label.y + dy + 3 };
      if (x < 0 || box.x1 > width || box.y0 < 14 || box.y1 > bottom) return false;
      return !taken.some((t) => t.x0 < box.x1 && box.x0 < t.x1 && t.y0 < box.y1 && box.y0 < t.y1);
    };
    // Where there is no room next to the point, further away with a line to it, and never outside of the picture.
    for (let far = 70; far <= 260; far += 15) for (const dy of [far, -far]) for (const dx of [9, -9 - wide, -wide / 2]) tries.push([label.x + dx, dy]);
    const [x, dy] = tries.find(free) || [Math.min(Math.max(0, label.x - wide / 2), width - wide), -10];
    const box = { x0: x, x1: x + wide, y0: label.y + dy - 11, y1: label.y + dy + 3 };
    taken.push(box);
    if (Math.abs(dy) > 30) root.append(svg("line", { class: "leader", x1: label.x, y1: label.y, x2: Math.min(Math.max(label.x, x), x + wide), y2: dy > 0 ? box.y0 : box.y1 }));
    root.append(svg("text", { class: "name", x, y: label.y + dy }, label.text));
  }
}

// A plot with menus that choose what is on its axes.
function choosing(label, choices, build) {
  const holder = html("div", {});
  const select = html("select", { onchange: () => show() }, choices.map(([key, text]) => html("option", { value: key }, text)));
  function show() {
    const figure = build(select.value);
    holder.replaceChildren(figure);
    if (holder.isConnected) drawAll(holder);
  }
  show();
  return html("div", {}, html("div", { class: "bar" }, html("label", {}, label, select)), holder);
}
const drawAll = (within) => within.querySelectorAll("figure, .detail").forEach((figure) => figure.draw && figure.draw());

// ---- overview ----

const ACCURACY = { uas: "UAS", las: "LAS", undirected_uas: "undirected UAS", tree_unlabelled: "whole trees (%)", best: "best known score (% of sentences)" };
const accuracyOf = (d, key) => (key === "best" ? d.search.best : d.accuracy[key]);
const speedOf = (d, key) => (key === "alone" ? d.speed.words_per_second && d.speed.words_per_second.median : d.speed.with_scoring);

// Slowest and fastest run, and the interval of the difference to the reference, around the reference's figure.
function spreadOf(d, key, speed) {
  const rate = d.speed.words_per_second, against = d.against_reference[key], spread = {};
  if (speed === "alone" && rate) spread.xs = [rate.low, rate.high];
  if (against && against.low !== null && d.name !== report.reference) {
    const middle = d.accuracy[key] - against.difference;
    spread.ys = [middle + against.low, middle + against.high];
  }
  return spread;
}

function speedPlot(key, speed) {
  const points = decoders.map((d, i) => ({ d, i, x: speedOf(d, speed), y: accuracyOf(d, key) })).filter((p) => p.x && p.y !== null);
  const front = points.filter((p) => !points.some((q) => q.x >= p.x && q.y >= p.y && (q.x > p.x || q.y > p.y))).sort((a, b) => a.x - b.x);
  const steps = front.flatMap((p, k) => (k ? [{ x: front[k - 1].x, y: p.y }, p] : [p]));
  const series = [{ name: "Pareto front", index: 7, plain: true, line: true, dash: "4 4", points: steps }];
  for (const p of points) series.push({ name: p.d.name, index: p.i, labelled: true,
    points: [{ x: p.x, y: p.y, title: `${p.d.name}: ${number(p.y)}, ${number(p.x, 0)} words per second`, ...spreadOf(p.d, key, speed) }] });
  return plot("Accuracy against speed", { label: `words per second, ${speed === "alone" ? "decoding only" : "with scoring"}`, log: true },
    { label: ACCURACY[key], percent: true }, series);
}

function overview() {
  const holder = html("div", {});
  const metric = html("select", { id: "metric", onchange: () => show() }, Object.entries(ACCURACY).map(([key, text]) => html("option", { value: key }, text)));
  const scored = decoders.some((d) => d.speed.with_scoring);
  const speed = html("select", { id: "speed", onchange: () => show() }, html("option", { value: "alone" }, "decoding only"),
    scored ? html("option", { value: "together" }, "with scoring") : null);
  function show() {
    holder.replaceChildren(speedPlot(metric.value, speed.value));
    if (holder.isConnected) drawAll(holder);
  }
  show();
  const np = (d) => d.accuracy.non_projective;
  const relaxed = decoders.some((d) => d.search.integral !== null);
  return [
    html("h2", {}, "Accuracy against speed"),
    html("p", { class: "note" }, `The dashed line connects decoders that no other decoder beats in both accuracy and speed. Horizontal bars: slowest and fastest run. Vertical bars (UAS and LAS): 95 % confidence interval of the difference to ${report.reference}.`),
    html("div", { class: "bar" }, html("label", {}, "accuracy", metric), html("label", {}, "speed", speed)),
    holder,
    html("h2", {}, "Accuracy"),
    html("p", { class: "note" }, "All words; labels are compared without their subtypes."),
    sortableTable("accuracy", [
      nameColumn,
      { title: "UAS", value: (d) => d.accuracy.uas, best: "high" },
      { title: "LAS", value: (d) => d.accuracy.las, best: "high" },
      { title: "undirected", value: (d) => d.accuracy.undirected_uas, best: "high", help: "Gold arcs found in any direction" },
      { title: "whole trees", value: (d) => d.accuracy.tree_unlabelled, best: "high", help: "Sentences with all heads right (%)" },
      { title: "crossing P", value: (d) => np(d).precision, best: "high", help: "Precision of non-projective arcs" },
      { title: "crossing R", value: (d) => np(d).recall, best: "high", help: "Recall of non-projective arcs" },
    ], decoders),
    ...againstReference(),
    html("h2", {}, "Search"),
    html("p", { class: "note" }, "Scores are those of the model. Best: sentences for which this decoder found the best score of all decoders. Gaps are means over sentences."),
    sortableTable("search", [
      nameColumn,
      { title: "mean score", value: (d) => d.search.mean_score, shown: (d) => number(d.search.mean_score, 4), best: "high" },
      { title: "best (%)", value: (d) => d.search.best, best: "high" },
      { title: "gap to best", value: (d) => d.search.gap_to_best, shown: (d) => number(d.search.gap_to_best, 4), best: "low" },
      { title: "gap to bound", value: (d) => d.search.gap_to_bound, shown: (d) => number(d.search.gap_to_bound, 4), best: "low", help: "Distance to the lowest upper bound that any decoder found" },
      { title: "certified (%)", value: (d) => d.search.certified, best: "high", help: "Sentences whose tree is proved to be the best in the decoder’s search space" },
      relaxed ? { title: "integral (%)", value: (d) => d.search.integral, best: "high", help: "Sentences for which the solution of the decoder’s relaxation is a tree" } : null,
      relaxed ? { title: "open gap", value: (d) => d.search.open_gap, shown: (d) => number(d.search.open_gap, 4), help: "Mean distance between the decoder’s own bound and score, for sentences in which they differ" } : null,
      { title: "gold scores more (%)", value: (d) => d.search.gold_scores_more, best: "low", help: "Certain search errors: the gold tree scores more than the tree found" },
    ].filter(Boolean), decoders),
    html("h2", {}, "Speed"),
    html("p", { class: "note" }, speedNote()),
    sortableTable("speed", [
      nameColumn,
      { title: "words/s", value: (d) => speedOf(d, "alone"), shown: (d) => number(speedOf(d, "alone"), 0), best: "high" },
      { title: "slowest–fastest run", value: (d) => d.speed.words_per_second && d.speed.words_per_second.high - d.speed.words_per_second.low,
        shown: (d) => (d.speed.words_per_second ? `${number(d.speed.words_per_second.low, 0)}–${number(d.speed.words_per_second.high, 0)}` : NONE) },
      { title: "with scoring", value: (d) => d.speed.with_scoring, shown: (d) => number(d.speed.with_scoring, 0), best: "high" },
      { title: "ms, median", value: (d) => d.speed.median_ms, shown: (d) => significant(d.speed.median_ms), best: "low", help: "Median time of a single sentence" },
      { title: "ms, 99 %", value: (d) => d.speed.p99_ms, shown: (d) => significant(d.speed.p99_ms), best: "low" },
      { title: "memory (MB)", value: (d) => d.speed.memory_mb, shown: (d) => number(d.speed.memory_mb, 1), best: "low", help: "Peak of additional memory" },
    ], decoders),
  ];
}
function againstReference() {
  const others = decoders.filter((d) => d.name !== report.reference);
  if (!others.length) return [];
  const against = (d) => d.against_reference;
  const difference = (key) => ({
    title: `±${key.toUpperCase()}`, value: (d) => against(d)[key].difference, shown: (d) => interval(against(d)[key]),
    help: `Difference to ${report.reference}, with a 95 % confidence interval (paired bootstrap)`,
  });
  const pair = (title, one, two, help) => ({
    title, help, value: (d) => against(d)[one], shown: (d) => `${number(against(d)[one])} / ${number(against(d)[two])}` });
  return [
    html("h2", {}, `Against ${report.reference}`),
    html("p", { class: "note" }, "Differences to the reference decoder, with 95 % confidence intervals (bootstrap over sentences)."),
    sortableTable("against", [
      nameColumn, difference("uas"), difference("las"),
      { title: "shared arcs (%)", value: (d) => against(d).shared_arcs, help: `Arcs that are the same as those of ${report.reference} (SARC)` },
      pair("only this one right / only the reference (%)", "gold_here_alone", "gold_there_alone", `Words that only this decoder has right / that only ${report.reference} has right`),
      pair("scores more / less (%)", "scores_more", "scores_less", `Sentences whose tree scores more / less than that of ${report.reference}`),
    ], others),
  ];
}
function speedNote() {
  const { scoring, threads, repeats } = report.about;
  const text = `Decoding on ${plural(threads, "thread")}, median of ${plural(repeats, "run")}; scores are computed in advance.`;
  const rate = scoring && scoring.words_per_second;
  return rate ? `${text} Scoring only: ${number(rate.median, 0)} words per second (${number(rate.low, 0)}–${number(rate.high, 0)}), ${scoring.device}.` : text;
}

// ---- by length ----

const BY_LENGTH = {
  gap_to_best: { text: "gap to the best known score", digits: 4 }, best: { text: "best known score (% of sentences)", percent: true },
  mean_score: { text: "mean score" }, uas: { text: "UAS", percent: true }, las: { text: "LAS", percent: true },
  certified: { text: "certified (%)", percent: true },
};
const TIMES = { median_ms: { text: "milliseconds per sentence, median", log: true }, p99_ms: { text: "milliseconds per sentence, 99 %", log: true },
  iterations: { text: "iterations, mean" } };
const groupNames = report.lengths.map((group) => group.name);

function lengthPlot(list, key, kinds) {
  const kind = kinds[key];
  const series = list.map((d, i) => ({ name: d.name, index: d.index ?? i, line: true, points: d.by_length.map((row, k) => ({
    x: k, y: row && row[key], title: row ? `${d.name}, ${groupNames[k]} words: ${significant(row[key])}` : "" })) }));
  return plot(`${kind.text} by length`, { label: "words in the sentence", names: groupNames }, { label: kind.text, log: kind.log, percent: kind.percent },
    series.filter((s) => s.points.some((p) => p.y !== null && p.y !== undefined)), 320);
}
function lengthTable(kinds) {
  const holder = html("div", {});
  const every = { ...BY_LENGTH, ...TIMES };
  const select = html("select", { id: "length-metric", onchange: () => show() }, Object.entries(every).map(([key, kind]) => html("option", { value: key }, kind.text)));
  function show() {
    const key = select.value;
    const value = (d, k) => (d.by_length[k] ? d.by_length[k][key] : null);
    holder.replaceChildren(sortableTable("by-length", [nameColumn, ...groupNames.map((name, k) => ({
      title: name, value: (d) => value(d, k), shown: (d) => (every[key].digits ? number(value(d, k), every[key].digits) : significant(value(d, k))) }))], decoders));
  }
  show();
  return [html("div", { class: "bar" }, html("label", {}, "figure", select)), holder];
}
function byLength() {
  const options = (kinds) => Object.entries(kinds).map(([key, kind]) => [key, kind.text]);
  return [
    html("div", { class: "pair" },
      html("section", {}, html("h2", {}, "Score and accuracy by length"), choosing("figure", options(BY_LENGTH), (key) => lengthPlot(decoders, key, BY_LENGTH))),
      html("section", {}, html("h2", {}, "Time by length"), choosing("figure", options(TIMES), (key) => lengthPlot(decoders, key, TIMES)))),
    html("h2", {}, "Figures by length"),
    html("p", { class: "note" }, `Sentences: ${report.lengths.map((g) => `${g.name} words ${number(g.sentences, 0)}`).join(", ")}.`),
    lengthTable(),
  ];
}

// ---- analyses ----

function analyses() {
  const { restarts, dual, pruning } = report.analyses;
  const parts = [];
  if (restarts) parts.push(...restartsPart(restarts));
  if (dual) parts.push(...dualPart(dual.methods));
  if (pruning) parts.push(...pruningPart(pruning));
  const missing = [!restarts && "restarts of hill-climbing", !dual && "AD3 next to the subgradient method", !pruning && "what a pruner leaves"].filter(Boolean);
  if (missing.length) parts.push(html("p", { class: "note", style: "margin-top:1.5rem" }, `Not analysed in this run: ${missing.join(", ")}. Use `,
    html("code", {}, "arbora compare --full"), " with the model to include them (pruning only for models with a pruner)."));
  return parts;
}
function restartsPart(rows) {
  const kinds = { best: ["best known score (% of sentences)", true], mean_score: ["mean score"], gap_to_best: ["gap to the best known score"], uas: ["UAS", true], seconds: ["seconds of decoding"] };
  const starts = [...new Set(rows.map((row) => row.start))];
  return [
    html("h2", {}, "Score against restarts"),
    html("p", { class: "note" }, "Hill-climbing from trees drawn uniformly or by their first-order scores, without a climb from the best first-order tree."),
    choosing("figure", Object.entries(kinds).map(([key, [text]]) => [key, text]), (key) => plot("Score against restarts", { label: "restarts", log: true },
      { label: kinds[key][0], percent: kinds[key][1], log: key === "seconds" }, starts.map((start, i) => ({ name: start.replace("_", "-"), index: i, line: true,
        points: rows.filter((row) => row.start === start).map((row) => ({ x: row.restarts, y: row[key], title: `${row.restarts} restarts: ${significant(row[key])}` })) })))),
  ];
}
function dualPart(methods) {
  const kinds = { certified: { text: "certified (%)", percent: true }, iterations: { text: "iterations, mean" }, median_ms: { text: "milliseconds per sentence, median", log: true }, p99_ms: { text: "milliseconds per sentence, 99 %", log: true } };
  const indexed = methods.map((m, i) => ({ ...m, index: i }));
  return [
    html("h2", {}, "AD3 and the subgradient method"),
    html("p", { class: "note" }, methods.map((m) => `${m.name}: ${number(m.certified.at(-1))} % certified, ${number(m.mean_iterations, 1)} iterations per sentence, ${number(m.words_per_second && m.words_per_second.median, 0)} words per second`).join(". ") + "."),
    html("div", { class: "pair" },
      choosing("by length", Object.entries(kinds).map(([key, kind]) => [key, kind.text]), (key) => lengthPlot(indexed, key, kinds)),
      html("div", {}, html("div", { class: "bar" }, html("label", { style: "min-height:2.1rem" }, "certified after some iterations")),
        plot("Certified after iterations", { label: "iterations", log: true }, { label: "certified (% of sentences)", percent: true },
          indexed.map((m) => ({ name: m.name, index: m.index, line: true, points: m.iterations.map((count, k) => ({ x: Math.max(count, 0.5), y: m.certified[k],
            title: `${m.name}: ${number(m.certified[k])} % after at most ${count}` })) })), 320))),
  ];
}
function pruningPart(rows) {
  const own = report.about.pruner;
  const most = Math.max(...rows.map((row) => row.max_heads));
  const series = [
    { name: `at most K heads, ratio ${own.ratio}`, index: 0, rows: rows.filter((row) => row.ratio === own.ratio), text: (row) => `K = ${row.max_heads}` },
    { name: `ratio, at most ${most} heads`, index: 1, rows: rows.filter((row) => row.max_heads === most), text: (row) => String(row.ratio) },
  ];
  return [
    html("h2", {}, "Pruning"),
    html("p", { class: "note" }, `Oracle UAS is the best UAS that is possible with the candidate arcs. This model keeps at most ${own.max_heads} heads per word, and those with a probability of at least ${own.ratio} times the best one’s.`),
    plot("Pruning", { label: "candidate arcs per word" }, { label: "oracle UAS", percent: true }, series.map((s) => ({ name: s.name, index: s.index, line: true, labelled: true,
      points: s.rows.map((row) => ({ x: row.arcs_per_word, y: row.oracle_uas, text: s.text(row), title: `${s.text(row)}: ${number(row.oracle_uas)}, ${number(row.arcs_per_word)} arcs per word` })).sort((a, b) => a.x - b.x) }))),
  ];
}

// ---- errors ----

let showErrors = () => {}; // shows the sentences with errors in words of a label or a part of speech
const wanted = {}; // what to show once the sentences are there
function errors() {
  const parts = [["label", "By label", "gold label"], ["upos", "By part of speech", "gold part of speech"]];
  return [
    html("p", { class: "note", style: "margin-top:1.5rem" }, "Words with the correct head and label (%), by their gold label or part of speech. Click a name to see its sentences."),
    ...parts.flatMap(([key, title, help]) => (report.errors[key].length < 2 ? [] : [html("h2", {}, title), sortableTable(key, [
      { title: help, value: (row) => row.name, shown: (row) => html("button", { type: "button", class: "quiet", onclick: () => {
        Object.assign(wanted, { label: "", upos: "", [key]: row.name });
        open("sentences", true);
        showErrors();
      } }, row.name) },
      { title: "words", value: (row) => row.words, shown: (row) => number(row.words, 0) },
      ...decoders.map((d, i) => ({ title: d.name, value: (row) => row.las[i], best: null })),
      { title: "wrong words", value: (row) => row.wrong, shown: (row) => number(row.wrong, 0), help: `Words that ${report.reference} has wrong` },
    ], report.errors[key])])),
  ];
}

// ---- sentences ----

let goTo = () => {}; // shows the sentence of a number, once there are sentences
function sentences() {
  const all = report.sentences;
  if (!all.length) return [html("p", { class: "note", style: "margin-top:1.5rem" }, "All decoders found the right trees.")];
  const choice = (id, chosen, any) => html("select", { id, onchange: () => filter() },
    any ? html("option", { value: "" }, any) : null, decoders.map((d, i) => html("option", { value: i, selected: i === chosen }, d.name)));
  const reference = decoders.findIndex((d) => d.name === report.reference);
  const one = choice("one", -1, "any decoder"), two = choice("two", reference, "any other");
  two.value = "";
  const field = (id, attributes) => html("input", { id, oninput: () => filter(), ...attributes });
  const longest = Math.max(...all.map((s) => s.words.length));
  const from = field("from", { type: "number", min: 1, max: longest, placeholder: "1", "aria-label": "shortest sentence" });
  const to = field("to", { type: "number", min: 1, max: longest, placeholder: longest, "aria-label": "longest sentence" });
  const text = field("text", { type: "search", placeholder: "a word", "aria-label": "words of the sentence" });
  const kinds = (id, names) => html("select", { id, onchange: () => filter() }, html("option", { value: "" }, "any"),
    [...new Set(names)].sort().map((name) => html("option", { value: name }, name)));
  const label = kinds("label", all.flatMap((s) => s.gold.labels.map((name) => name.split(":")[0]))), upos = kinds("upos", all.flatMap((s) => s.upos));
  const show = html("select", { id: "show", onchange: () => filter() }, [["", "decoders disagree"], ["wrong", "any error"], ["one", "the first has more right"], ["two", "the second has more right"], ["gold", "gold scores more than both"]]
    .map(([value, label]) => html("option", { value }, label)));
  const order = html("select", { id: "order", onchange: () => filter() }, [["file", "order of the file"], ["arcs", "arcs that differ"], ["score", "difference in score"], ["length", "length"]]
    .map(([value, label]) => html("option", { value }, label)));
  const everyTree = html("input", { id: "every-tree", type: "checkbox", onchange: () => detail() });
  const list = html("ul", { class: "list", id: "list" }), pager = html("div", { class: "pager" }), view = html("div", { class: "detail", id: "detail", "aria-live": "polite" });
  let found = [], current = 0;
  // The page's address names the sentence, so that it can be sent to someone.
  goTo = (number) => {
    const place = () => found.findIndex((s) => s.number === number);
    if (place() < 0 && all.some((s) => s.number === number)) {
      [label.value, upos.value, show.value, text.value, from.value, to.value] = ["", "", "wrong", "", "", ""];
      filter();
    }
    current = Math.max(0, place());
    render();
  };

  showErrors = () => {
    [label.value, upos.value, show.value, one.value, two.value] = [wanted.label, wanted.upos, "wrong", "", ""];
    filter();
  };
  // Whether a tree of those shown has an error in a word of the label and the part of speech that are asked for.
  const hasError = (s, trees) => s.words.some((_, i) => (!label.value || bare(s.gold.labels[i]) === label.value) && (!upos.value || s.upos[i] === upos.value)
    && trees.some((t) => s.trees[t].heads[i] !== s.gold.heads[i] || bare(s.trees[t].labels[i]) !== bare(s.gold.labels[i])));
  const bare = (name) => name.split(":")[0];
  const rightOf = (s, tree) => tree.heads.reduce((sum, h, i) => sum + (h === s.gold.heads[i]), 0);
  const apart = (a, b) => a.heads.reduce((sum, h, i) => sum + (h !== b.heads[i]), 0);
  // The trees that a filter is about: two of them, or all where a decoder is not named.
  function chosen(s) {
    const [a, b] = [one.value, two.value];
    if (a === "" && b === "") return s.trees.map((_, i) => i);
    const named = [a, b].filter((v) => v !== "").map((v) => s.tree[v]);
    if (a !== "" && b !== "") return named;
    const mine = named[0];
    return mine === null ? [null] : [mine, ...s.trees.map((_, i) => i).filter((i) => i !== mine)];
  }
  function filter() {
    const low = +from.value || 1, high = +to.value || Infinity, word = text.value.trim().toLowerCase();
    found = all.filter((s) => {
      const n = s.words.length;
      if (n < low || n > high || (word && !s.words.join(" ").toLowerCase().includes(word))) return false;
      const trees = chosen(s);
      const there = trees.filter((i) => i !== null);
      if ((show.value === "wrong" || label.value || upos.value) && !hasError(s, there)) return false;
      if (show.value === "wrong") return true;
      if (trees.includes(null) || trees[0] === trees[1] || trees.length < 2) return false;
      const [a, b] = trees.map((i) => s.trees[i]);
      if (show.value === "gold") return s.gold.score !== null && trees.every((i) => s.gold.score > s.trees[i].score + 1e-6);
      if (show.value) return show.value === "one" ? rightOf(s, a) > rightOf(s, b) : rightOf(s, a) < rightOf(s, b);
      return true;
    });
    const range = (s) => { const scores = chosen(s).filter((i) => i !== null).map((i) => s.trees[i].score); return Math.max(...scores) - Math.min(...scores); };
    const differ = (s) => Math.max(0, ...chosen(s).filter((i) => i !== null).slice(1).map((i) => apart(s.trees[chosen(s).find((k) => k !== null)], s.trees[i])));
    const key = { arcs: differ, score: range, length: (s) => s.words.length }[order.value];
    if (key) {
      const keys = new Map(found.map((s) => [s, key(s)]));
      found.sort((a, b) => keys.get(b) - keys.get(a) || a.number - b.number);
    }
    current = 0;
    render();
  }
  function render() {
    const page = Math.floor(current / PAGE), pages = Math.max(1, Math.ceil(found.length / PAGE));
    list.replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((s, k) => html("li", {},
      html("button", { type: "button", "aria-current": page * PAGE + k === current ? "true" : null, onclick: () => { current = page * PAGE + k; render(); tell(); } },
        html("span", { class: "text", dir: "auto" }, s.words.join(" ")),
        html("span", { class: "soft" }, `${s.number} · ${plural(s.words.length, "word")} · ${plural(s.trees.length, "tree")}`)))));
    pager.replaceChildren(
      html("button", { type: "button", "aria-label": "previous page", disabled: page === 0, onclick: () => { current = (page - 1) * PAGE; render(); } }, "‹"),
      html("span", { id: "count" }, found.length ? `${number(page * PAGE + 1, 0)}–${number(Math.min(found.length, (page + 1) * PAGE), 0)} of ${number(found.length, 0)}` : "none"),
      html("button", { type: "button", "aria-label": "next page", disabled: page >= pages - 1, onclick: () => { current = (page + 1) * PAGE; render(); } }, "›"));
    detail();
  }
  function move(by) {
    if (current + by < 0 || current + by >= found.length) return;
    current += by;
    render();
    tell();
  }
  const tell = () => history.replaceState(null, "", `#sentences/${found[current].number}`);
  function detail() {
    const s = found[current];
    if (!s) return view.replaceChildren(html("p", { class: "note" }, "No sentence matches."));
    const numbers = everyTree.checked ? s.trees.map((_, i) => i) : [...new Set(chosen(s).filter((i) => i !== null))];
    const shown = numbers.map((i) => s.trees[i]);
    const best = Math.max(...s.trees.map((tree) => tree.score));
    const differs = s.words.map((_, i) => new Set(shown.map((tree) => tree.heads[i])).size > 1);
    const marks = (tree) => tree.heads.map((h, i) => {
      if (differs[i]) return h === s.gold.heads[i] ? "right" : "wrong";
      return h === s.gold.heads[i] ? null : "missed";
    });
    const places = spread(s.words, [s.gold, ...shown]);
    const down = places.width > (view.clientWidth || 640); // then words stand one under the other, and trees side by side
    const block = (names, tree, notes) => html("section", { class: "tree" },
      html("header", {}, html("h3", {}, names), html("span", { class: "note", style: "margin:0" }, notes)),
      down ? drawTreeDown(s.words, tree, marks(tree)) : drawTree(s.words, tree, marks(tree), places));
    view.replaceChildren(
      html("div", { class: "pager" },
        html("button", { type: "button", id: "previous", disabled: current === 0, onclick: () => move(-1) }, "‹ previous"),
        html("button", { type: "button", id: "next", disabled: current >= found.length - 1, onclick: () => move(1) }, "next ›"),
        html("span", {}, `Sentence ${s.number} · ${plural(s.words.length, "word")} · `, html("code", {}, base(s.where)))),
      html("p", { dir: "auto" }, s.words.join(" ")),
      html("div", { class: down ? "columns" : "" }, block("gold", s.gold, s.gold.score === null ? "not among the candidates" : `score ${number(s.gold.score, 3)}`),
      ...numbers.map((i) => {
        const tree = s.trees[i];
        const names = decoders.filter((_, d) => s.tree[d] === i).map((d) => d.name).join(", ");
        const lost = best - tree.score;
        return block(names, tree, `score ${number(tree.score, 3)}${lost > 5e-4 ? ` (${signed(-lost, 3)})` : ""} · ${rightOf(s, tree)} of ${s.words.length} heads right`);
      })));
  }
  view.draw = detail; // again, where the width of the page changes
  document.addEventListener("keydown", (event) => {
    if (view.closest("[hidden]") || event.target.closest("input, select, textarea, [role=tab]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });
  const key = (mark, label) => html("span", { class: "key tree", style: "border:0;padding:0" },
    svg("svg", { viewBox: "0 0 26 10" }, svg("g", { class: mark }, svg("path", { d: "M1 5 H25" }))), label);
  filter();
  if (!found.length) {
    show.value = "wrong"; // all decoders agree
    filter();
  }
  return [
    html("h2", {}, "Sentences with errors, or on which decoders disagree"),
    html("p", { class: "note" }, key("right", "differs, right"), key("wrong", "differs, wrong"), key("missed", "the same, wrong"),
      "Keys j and k: next and previous."),
    html("div", { class: "bar" }, html("label", {}, one), html("label", {}, "against", two), html("label", {}, "show", show)),
    html("div", { class: "bar" }, html("label", {}, "words", from, "to", to), html("label", {}, "with", text), html("label", {}, "error in label", label), html("label", {}, "part of speech", upos), html("label", {}, "sort by", order),
      html("label", {}, everyTree, "all trees")),
    html("div", { class: "browser" }, html("div", {}, pager, list), view),
  ];
}

// ---- about ----

function about() {
  const a = report.about, machine = a.machine;
  const rows = [
    ["command", a.command], ["model", `${a.model || NONE}${a.digest ? `, digest ${a.digest.slice(0, 16)}` : ""}`], ["treebank", `${a.file}: ${plural(a.sentences, "sentence")}, ${plural(a.words, "word")}`],
    ["candidates", `${number(a.arcs_per_word)} arcs per word${a.pruner ? `; at most ${a.pruner.max_heads} heads, ratio ${a.pruner.ratio}${a.pruner.projective_kept ? ", and the pruner’s best projective tree" : ""}` : ", none pruned"}`],
    ["parts", ["arcs", ...a.parts].join(", ")],
    ["timing", `${plural(a.repeats, "run")} after one untimed run, ${plural(a.threads, "thread")}`],
    ["bootstrap", `${plural(a.draws, "draw")}, seed ${a.seed}`],
    ["machine", `${machine.system}, ${machine.cpu}, ${plural(machine.cores, "core")}${machine.load === null ? "" : `, load ${number(machine.load, 1)}`}`],
    ["versions", `arbora ${machine.arbora}, Python ${machine.python}, numpy ${machine.numpy}, numba ${machine.numba}`],
    ["made", a.made],
  ];
  const failing = decoders.filter((d) => d.failures.count);
  const settings = (d) => Object.entries(d.settings).map(([key, value]) => `${key}=${value}`).join(", ");
  return [
    html("h2", {}, "Where the figures come from"),
    html("dl", {}, rows.flatMap(([term, value]) => [html("dt", {}, term), html("dd", {}, String(value))])),
    html("h2", {}, "Decoders"),
    html("dl", {}, decoders.flatMap((d) => [html("dt", {}, d.name), html("dd", {}, html("code", {}, `${d.decoder}(${settings(d)})`),
      Object.keys(d.counters).length ? html("div", { class: "soft" }, "means per sentence: " + Object.entries(d.counters).map(([key, value]) => `${key} ${significant(value)}`).join(", ")) : null)])),
    failing.length ? html("h2", {}, "Sentences without a tree") : null,
    ...failing.flatMap((d) => [html("h3", { style: "margin-top:1rem" }, `${d.name}: ${plural(d.failures.count, "sentence")}`),
      html("dl", {}, d.failures.first.flatMap((f) => [html("dt", {}, base(f.where)), html("dd", {}, f.why)]))]),
    html("h2", {}, "What the figures mean"),
    html("dl", {}, [
      ["UAS, LAS", "words with the correct head; words with the correct head and label. Labels are compared without their subtypes, as in the official evaluation of Universal Dependencies"],
      ["best", "sentences for which this decoder found the best score of all decoders"],
      ["gap to bound", "distance of a tree’s score to the lowest upper bound that any of the decoders found, for sentences with a bound"],
      ["certified", "sentences whose tree is proved to be the best in the decoder’s search space; for projective decoders, these are only the projective trees"],
      ["shared arcs", "arcs that are the same as those of the reference decoder (SARC)"],
      ["only this one right / only the reference", "words with the gold head from this decoder only / from the reference only"],
      ["scores more / less", "sentences whose tree scores more, or less, than that of the reference"],
      ["integral", "sentences for which the solution of AD3’s relaxation is a tree; open gap: mean distance between a decoder’s own bound and score, for sentences in which they differ"],
      ["crossing", "an arc is non-projective if a word between its ends does not descend from its head"],
      ["intervals", "95 % confidence intervals of the differences, by drawing sentences with replacement, the same for both decoders"],
    ].flatMap(([term, value]) => [html("dt", {}, term), html("dd", {}, value)])),
  ];
}

// ---- the page ----

const TABS = [["overview", "Overview", overview], ["length", "By length", byLength], ["analyses", "Analyses", analyses], ["errors", "Errors", errors], ["sentences", "Sentences", sentences], ["about", "About", about]];

function open(id, focus) {
  for (const [other, , build] of TABS) {
    const tab = document.getElementById(`tab-${other}`), panel = document.getElementById(`panel-${other}`);
    const chosen = other === id;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    panel.hidden = !chosen;
    if (!chosen) continue;
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!panel.firstChild) panel.append(...build().filter(Boolean).flat());
    drawAll(panel);
    if (focus) tab.focus();
  }
}

function start() {
  const a = report.about;
  document.getElementById("subtitle").textContent = `${base(a.file)} · ${plural(a.sentences, "sentence")}${a.lengths ? ` of ${a.lengths} words` : ""}, ${plural(a.words, "word")} · ${number(a.arcs_per_word, 1)} candidate arcs per word · ${["arcs", ...a.parts].join(", ")}`;
  document.getElementById("footer").textContent = `Made by arbora ${a.machine.arbora} on ${a.made.slice(0, 10)}. The same figures are in report.json, report.csv, lengths.csv and sentences.csv.`;
  const notices = document.getElementById("notices");
  for (const d of decoders) if (d.failures.count) notices.append(html("p", { class: "notice" },
    `${d.name} found no tree for ${plural(d.failures.count, "sentence")}; its figures stand on the other ${number(d.sentences, 0)}.`));
  for (const d of decoders) if (d.speed.failures.count) notices.append(html("p", { class: "notice" },
    `${d.name} failed in ${plural(d.speed.failures.count, "timing run")}, which its speed leaves out; the first: ${d.speed.failures.first}`));
  for (const warning of report.warnings) notices.append(html("p", { class: "notice" }, warning));
  TABS.forEach(([id, title], i) => {
    document.getElementById("tabs").append(html("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`,
      onclick: () => { open(id); history.replaceState(null, "", `#${id}`); },
      onkeydown: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) open(TABS[(i + by + TABS.length) % TABS.length][0], true);
      } }, title));
    document.getElementById("panels").append(html("section", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, hidden: true }));
  });
  const follow = () => {
    const [wanted, number] = location.hash.slice(1).split("/");
    const known = TABS.some(([id]) => id === wanted);
    if (known) open(wanted);
    if (number) goTo(+number);
    return known;
  };
  if (!follow()) open(TABS[0][0]);
  addEventListener("hashchange", follow);
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => drawAll(document.querySelector("[role=tabpanel]:not([hidden])")), 100); });
}

theme();
start();
