"use strict";
// What the pages of Arbora share: making elements, drawing trees, saving pictures, light and dark.
// Text is set as text, never as markup.

// ---- elements ----

function make(space, tag, attributes, children) {
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const html = (tag, attributes, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => make("http://www.w3.org/2000/svg", tag, attributes, children);

const canvas = document.createElement("canvas").getContext("2d");
function widthOf(text, size) {
  canvas.font = `${size}px system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif`;
  return canvas.measureText(text).width;
}

// ---- trees ----

// Arcs between words, each on the lowest level above the shorter ones that it overlaps.
function levels(heads) {
  const arcs = [];
  heads.forEach((h, i) => { if (h > 0) arcs.push({ h, m: i + 1, from: Math.min(h, i + 1), to: Math.max(h, i + 1), level: 1 }); });
  arcs.sort((a, b) => a.to - a.from - (b.to - b.from));
  arcs.forEach((arc, k) => {
    for (let j = 0; j < k; j++) {
      const other = arcs[j];
      // Arcs that meet at a word without lying over each other may share a level.
      if (other.from < arc.to && arc.from < other.to) arc.level = Math.max(arc.level, other.level + 1);
    }
  });
  return arcs;
}

// Whether a sentence runs from right to left: whether more of its letters are of such scripts than of others.
const isRightToLeft = (words) => {
  const letters = words.join("").match(/\p{L}/gu) || [];
  return 2 * letters.filter((letter) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]|\ud802|\ud803|\ud83a|\ud83b/.test(letter)).length > letters.length;
};

// Where words stand: the same for all trees of a sentence, so that they can be compared, with room for their labels.
function spread(words, trees) {
  const centre = [];
  let x = 8;
  words.forEach((word) => {
    const wide = Math.max(widthOf(word, 14), 12);
    centre.push(x + wide / 2);
    x += wide + 18;
  });
  const arcs = trees.flatMap((tree) => levels(tree.heads).map((arc) => ({ ...arc, need: widthOf(tree.labels[arc.m - 1], 10.5) + 26 })));
  for (const arc of arcs.sort((a, b) => a.to - b.to)) {
    const more = arc.need - (centre[arc.to - 1] - centre[arc.from - 1]);
    if (more <= 0) continue;
    for (let k = arc.to - 1; k < centre.length; k++) centre[k] += more;
    x += more;
  }
  const width = Math.ceil(x);
  return { centre: isRightToLeft(words) ? centre.map((place) => width - place) : centre, width };
}

// marks[i] is the class of the arc to word i + 1, strength[i] its opacity. Arcs, labels and words have the attribute data-word.
function drawTree(words, tree, marks, { centre, width }, strength = []) {
  const arcs = levels(tree.heads);
  const top = Math.max(0, ...arcs.map((arc) => arc.level)) + 1;
  const step = top > 14 ? 15 : 21;
  const base = 16 + top * step;
  const height = base + 28;
  const at = (level) => base - 6 - level * step;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "dependency tree" });
  const labels = []; // over all lines
  const draw = (i, path, tip, label, lx, ly) => {
    const mark = marks[i];
    root.append(svg("g", { class: mark, "data-word": i + 1, opacity: strength[i] }, svg("path", { d: path }),
      svg("polygon", { points: `${tip},${base} ${tip - 3.5},${base - 7} ${tip + 3.5},${base - 7}` })));
    labels.push(svg("text", { class: `label ${mark || ""}`, "data-word": i + 1, x: lx, y: ly, "text-anchor": "middle" }, label));
  };
  const order = (i) => (marks[i] ? 1 : 0); // what differs is drawn last, over the rest
  const drawn = [...arcs].sort((a, b) => order(a.m - 1) - order(b.m - 1));
  for (const arc of drawn) {
    const toRight = centre[arc.h - 1] < centre[arc.m - 1];
    const start = centre[arc.h - 1] + (toRight ? 5 : -5), end = centre[arc.m - 1];
    const y = at(arc.level), r = Math.min(7, Math.abs(end - start) / 2) * (toRight ? 1 : -1);
    draw(arc.m - 1, `M${start} ${base} V${y + 7} Q${start} ${y} ${start + r} ${y} H${end - r} Q${end} ${y} ${end} ${y + 7} V${base - 6}`,
      end, tree.labels[arc.m - 1], (start + end) / 2, y + 3.5);
  }
  tree.heads.forEach((h, i) => {
    if (h === 0) draw(i, `M${centre[i]} ${at(top) + 8} V${base - 6}`, centre[i], tree.labels[i], centre[i], at(top) + 4);
  });
  root.append(...labels);
  words.forEach((word, i) => root.append(svg("text", { class: "word", "data-word": i + 1, x: centre[i], y: base + 18, "text-anchor": "middle" }, word)));
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "tree" }, root);
}

// The same tree with the words one under the other, for sentences that are wider than the page.
function drawTreeDown(words, tree, marks) {
  const arcs = levels(tree.heads), row = 22, step = 13;
  const labelled = Math.max(...tree.labels.map((label) => widthOf(label, 10.5))) + 12;
  const base = 18 + (Math.max(0, ...arcs.map((arc) => arc.level)) + 1) * step; // where arrows end
  const width = Math.ceil(base + labelled + Math.max(...words.map((word) => widthOf(word, 14))) + 8);
  const height = words.length * row + 6, y = (word) => word * row - row / 2 + 3;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "dependency tree" });
  const draw = (m, path) => root.append(svg("g", { class: marks[m - 1], "data-word": m }, svg("path", { d: path }),
    svg("polygon", { points: `${base},${y(m)} ${base - 7},${y(m) - 3.5} ${base - 7},${y(m) + 3.5}` })));
  const order = (arc) => (marks[arc.m - 1] ? 1 : 0); // what differs is drawn last, over the rest
  for (const { h, m, level } of [...arcs].sort((a, b) => order(a) - order(b))) {
    const x = base - 4 - level * step, start = y(h) + (m > h ? 4 : -4), r = m > h ? 6 : -6;
    draw(m, `M${base} ${start} H${x + 6} Q${x} ${start} ${x} ${start + r} V${y(m) - r} Q${x} ${y(m)} ${x + 6} ${y(m)} H${base - 6}`);
  }
  tree.heads.forEach((h, i) => { if (h === 0) draw(i + 1, `M2 ${y(i + 1)} H${base - 6}`); });
  words.forEach((word, i) => root.append(
    svg("text", { class: `label ${marks[i] || ""}`, "data-word": i + 1, x: base + 5, y: y(i + 1) + 4 }, tree.labels[i]),
    svg("text", { class: "word", "data-word": i + 1, x: base + labelled, y: y(i + 1) + 5 }, word)));
  return root;
}

// ---- pictures ----

// A picture on its own: the styles that it has on the page are written into it.
function pictureText(root) {
  const copy = root.cloneNode(true);
  const [from, to] = [[root, ...root.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "font-family", "font-size"])
      to[i].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return copy.outerHTML;
}
function saveLink(root, title) {
  return html("button", { type: "button", class: "quiet", onclick: () => {
    const url = URL.createObjectURL(new Blob([pictureText(root)], { type: "image/svg+xml" }));
    html("a", { href: url, download: `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  } }, "save as SVG");
}

// ---- light and dark ----

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const remember = (value) => { try { if (value) localStorage.setItem("arbora-theme", value); return localStorage.getItem("arbora-theme"); } catch { return null; } };
  const stored = remember();
  if (stored) document.documentElement.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    remember(document.documentElement.dataset.theme);
  });
}
