"use strict";
// What is seen follows from `state`, which is also the page's address, and from the last answer of /v1/parse.

const id = (name) => document.getElementById(name);
const state = { text: "The old painter saw a clock in the garden with a telescope.", model: "", decoders: [], more: "", k: 1, sentence: 1,
  known: {}, gold: "" }; // known: by sentence, { heads: { word: head }, forbid: [[word, head]] }
let answer = null; // the last one
let gold = []; // sentences of the gold box
let ranks = {}; // rank that is shown, by decoder
let picked = null; // { word, head }: an arc that is being chosen
let asking = null; // aborts the request that is under way

// ---- the address ----

function remember() {
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    if (!["", "[]", "{}"].includes(text)) kept.set(name, text);
  }
  history.replaceState(null, "", `#${kept}`);
}
function recall() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in state)) continue;
    try {
      const found = typeof state[name] === "object" ? JSON.parse(value) : typeof state[name] === "number" ? Number(value) || 1 : value;
      if (Array.isArray(found) === Array.isArray(state[name]) && found) state[name] = found;
    } catch { /* an address that someone changed */ }
  }
}

// ---- asking ----

// Sentences of CoNLL-U: words, heads and labels; all other lines are skipped.
function readGold(text) {
  return text.split(/\n\s*\n/).map((block) => block.split("\n").map((line) => line.split("\t")).filter((row) => /^\d+$/.test(row[0]) && row.length >= 8))
    .filter((rows) => rows.length)
    .map((rows) => ({ heads: rows.map((row) => (/^\d+$/.test(row[6]) ? +row[6] : -1)), labels: rows.map((row) => row[7]) }));
}
function requestBody() {
  const body = state.gold.trim() ? { conllu: `${state.gold.trim()}\n` } : { text: state.text };
  const more = state.more.split(/,(?![^(]*\))/).map((one) => one.trim()).filter(Boolean);
  const known = Object.entries(state.known).map(([sentence, { heads, forbid }]) => ({ sentence: +sentence, heads, forbid }));
  return { ...body, model: state.model || null, decoders: [...state.decoders, ...more], k_best: state.k, confidence: true, with_conllu: true, known };
}
async function ask() {
  remember();
  if (asking) asking.abort();
  const own = (asking = new AbortController());
  id("status").textContent = "parsing …";
  const late = setTimeout(() => (id("status").textContent = "parsing … (the first use of a decoder compiles it, which takes some seconds)"), 3000);
  try {
    const reply = await fetch("/v1/parse", { method: "POST", signal: own.signal, headers: { "content-type": "application/json" }, body: JSON.stringify(requestBody()) });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.detail);
    answer = found;
    ranks = {};
    gold = state.gold.trim() ? readGold(state.gold) : [];
    const words = answer.sentences.reduce((sum, one) => sum + one.words.length, 0);
    id("status").textContent = `${words} words in ${answer.sentences.length} sentence${answer.sentences.length > 1 ? "s" : ""}, answered in ${answer.milliseconds} ms`;
    id("notices").replaceChildren(...answer.warnings.map((text) => html("p", { class: "notice" }, text)));
    state.sentence = Math.min(Math.max(1, state.sentence), answer.sentences.length);
    show();
  } catch (error) {
    if (error.name === "AbortError") return;
    id("status").textContent = "";
    id("notices").replaceChildren(html("p", { class: "notice" }, error.message || "the service does not answer"));
  } finally {
    clearTimeout(late);
  }
}

// ---- trees ----

const current = () => answer.sentences[state.sentence - 1];
const knownHere = () => (state.known[state.sentence] ||= { heads: {}, forbid: [] });
const percent = (part, all) => `${((100 * part) / all).toFixed(1)} %`;

function show() {
  remember();
  const sentence = current(), count = answer.sentences.length, n = sentence.words.length;
  const right = gold[state.sentence - 1] && gold[state.sentence - 1].heads.length === n ? gold[state.sentence - 1] : null;
  id("view").hidden = false;
  const move = (by) => { state.sentence += by; pick(null); show(); };
  id("pager").replaceChildren(...(count < 2 ? [] : [
    html("button", { type: "button", id: "previous", disabled: state.sentence === 1, onclick: () => move(-1) }, "‹ previous"),
    html("button", { type: "button", id: "next", disabled: state.sentence === count, onclick: () => move(1) }, "next ›"),
    html("span", { class: "note" }, `sentence ${state.sentence} of ${count}`)]));
  id("sentence").textContent = sentence.text || sentence.words.join(" ");
  const shown = answer.decoders.map((name) => {
    const trees = sentence.trees.filter((tree) => tree.decoder === name);
    return { name, trees, tree: trees[Math.min(ranks[name] || 0, trees.length - 1)] };
  });
  const drawn = shown.filter(({ tree }) => !tree.error).map(({ tree }) => tree);
  const differs = sentence.words.map((_, i) => new Set(drawn.map((tree) => tree.heads[i])).size > 1);
  const places = spread(sentence.words, right ? [right, ...drawn] : drawn);
  const { heads } = state.known[state.sentence] || { heads: {} };
  const marks = (tree) => tree.heads.map((h, i) => {
    const good = right && h === right.heads[i];
    const mark = right ? (differs[i] ? (good ? "right" : "wrong") : good ? "" : "missed") : differs[i] ? "differs" : "";
    return `${mark}${heads[i + 1] === undefined ? "" : " known"}`.trim() || null;
  });
  id("key").textContent = [drawn.length > 1 && (differs.some(Boolean) ? "Thick arcs: the decoders disagree." : "All decoders found the same tree."),
    right && "Dashed arcs are not in the gold tree.", "Pale arcs are less probable. To require or forbid an arc, click on it, or on a word and then on its head."].filter(Boolean).join(" ");
  const rows = shown.map(({ name, trees, tree }, row) => block(name, trees, tree, row, sentence, right, tree.error ? null : marks(tree), places));
  if (right) rows.unshift(html("section", { class: "tree" }, html("header", {}, html("h3", {}, "gold")), drawTree(sentence.words, right, right.heads.map(() => null), places)));
  const focused = document.activeElement && document.activeElement.closest && document.activeElement.closest("#trees [data-focus]");
  id("trees").replaceChildren(...rows);
  if (focused) { const again = document.querySelector(`[data-focus="${focused.dataset.focus}"]`); if (again) again.focus(); }
  showKnown(sentence.words);
  const boxes = [...id("trees").querySelectorAll(".scroll")];
  for (const box of boxes) {
    if (isRightToLeft(sentence.words)) { box.firstChild.style.marginLeft = "auto"; box.scrollLeft = box.scrollWidth; }
    box.addEventListener("scroll", () => boxes.forEach((other) => { other.scrollLeft = box.scrollLeft; }));
  }
  showPicked();
}

function block(name, trees, tree, row, sentence, right, marks, places) {
  const title = html("h3", {}, name);
  if (tree.error) return html("section", { class: "tree" }, html("header", {}, title), html("p", { class: "error" }, tree.error));
  const turn = (by, text, label, off) => html("button", { type: "button", "aria-label": label, "data-focus": `${name}${by}`, disabled: off,
    onclick: () => { ranks[name] = tree.rank - 1 + by; show(); } }, text);
  if (trees.length > 1) title.append(html("span", { class: "rank" }, turn(-1, "‹", "previous tree", tree.rank === 1),
    `${tree.rank} of ${trees.length}${tree.share === undefined ? "" : ` · ${percent(tree.share, 1)}`}`, turn(1, "›", "next tree", tree.rank === trees.length)));
  const facts = [`score ${tree.score === null ? "–∞" : tree.score.toFixed(3)}`];
  if (tree.bound !== null && !tree.certified) facts.push(`bound ${tree.bound.toFixed(3)}`);
  facts.push(tree.certified ? "provably optimal" : "not proved optimal", `${tree.milliseconds.toFixed(1)} ms`);
  const n = sentence.words.length;
  if (right) {
    const uas = tree.heads.filter((h, i) => h === right.heads[i]).length;
    const las = tree.heads.filter((h, i) => h === right.heads[i] && tree.labels[i] === right.labels[i]).length;
    facts.unshift(`UAS ${percent(uas, n)}, LAS ${percent(las, n)}`);
  }
  const strength = (tree.arc_probabilities || []).map((p) => (0.3 + 0.7 * p).toFixed(2));
  const drawing = drawTree(sentence.words, tree, marks, places, strength);
  const root = drawing.firstChild;
  annotate(root, sentence, tree, row);
  const copy = (what, text) => html("button", { type: "button", class: "quiet", onclick: () => offer(what, text()) }, what);
  return html("section", { class: "tree", "aria-label": name },
    html("header", {}, title, html("span", { class: "note facts" }, facts.join(" · ")), html("span", { class: "copies" },
      copy("CoNLL-U", () => tree.conllu), copy("SVG", () => pictureText(root)), copy("LaTeX", () => asLatex(sentence.words, tree)))),
    drawing, table(sentence, tree));
}

const wordName = (words, i) => (i === 0 ? "root" : words[i - 1]);

// Words are buttons, arcs say what they are.
function annotate(root, sentence, tree, row) {
  const { words } = sentence, p = tree.arc_probabilities;
  const about = (m) => `${wordName(words, tree.heads[m - 1])} → ${words[m - 1]}, ${tree.labels[m - 1]}${p ? `, ${percent(p[m - 1], 1)}` : ""}`;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `tree with ${words.length} words; each word is a button`);
  for (const element of root.querySelectorAll("[data-word]")) {
    const m = +element.dataset.word;
    if (element.classList.contains("word")) {
      for (const [key, value] of Object.entries({ tabindex: m === 1 ? 0 : -1, role: "button", "data-focus": `${row}/${m}`,
        "aria-label": `word ${m}, ${words[m - 1]}: ${sentence.upos[m - 1]}, head ${wordName(words, tree.heads[m - 1])}, ${tree.labels[m - 1]}` })) element.setAttribute(key, value);
      element.append(svg("title", {}, [sentence.upos[m - 1], sentence.lemmas[m - 1], sentence.feats[m - 1]].filter((one) => one !== "_").join(" · ")));
      element.addEventListener("click", () => choose(m));
      element.addEventListener("keydown", (event) => onWordKey(event, root, m));
    } else {
      element.append(svg("title", {}, about(m)));
      element.addEventListener("click", () => pick({ word: m, head: tree.heads[m - 1] }));
    }
  }
}
function onWordKey(event, root, m) {
  const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(m);
  else if (along) {
    const next = root.querySelector(`.word[data-word="${m + (isRightToLeft(current().words) ? -along : along)}"]`);
    if (next) next.focus();
  } else return;
  event.preventDefault();
}

function table(sentence, tree) {
  const p = tree.arc_probabilities;
  const cells = (tag, row) => html("tr", {}, row.map((cell) => html(tag, {}, String(cell))));
  const details = html("details", { ontoggle: () => details.childElementCount === 1 && details.append(html("div", { class: "scroll", tabindex: 0 }, html("table", {},
    html("thead", {}, cells("th", ["#", "word", "tag", "head", "", "label", ...(p ? ["probability"] : [])])),
    html("tbody", {}, sentence.words.map((word, i) => cells("td", [i + 1, word, sentence.upos[i], tree.heads[i], wordName(sentence.words, tree.heads[i]), tree.labels[i],
      ...(p ? [percent(p[i], 1)] : [])])))))) }, html("summary", {}, "as a table"));
  return details;
}

// ---- known arcs ----

function choose(m) {
  if (!picked || picked.head !== null) pick({ word: m, head: null });
  else pick(picked.word === m ? null : { word: picked.word, head: m });
}
function pick(arc) {
  picked = arc;
  showPicked();
}
function showPicked() {
  for (const word of document.querySelectorAll("#trees .word")) word.classList.toggle("chosen", Boolean(picked) && +word.dataset.word === picked.word);
  const box = id("picked");
  box.hidden = !picked;
  if (!picked) return;
  const { words } = current(), { word, head } = picked;
  const button = (name, text, act) => html("button", { type: "button", id: name, onclick: act }, text);
  const cancel = button("cancel", "cancel", () => pick(null));
  if (head === null) box.replaceChildren(html("div", { class: "bar" }, html("span", {}, "head of ", html("bdi", {}, words[word - 1]), ": click on it in a tree, or choose "),
    button("as-root", "the root", () => pick({ word, head: 0 })), cancel));
  else {
    box.replaceChildren(html("div", { class: "bar" }, html("span", {}, html("bdi", {}, wordName(words, head)), " → ", html("bdi", {}, words[word - 1])),
      button("require", "require", () => know(word, head, true)), button("forbid", "forbid", () => know(word, head, false)), cancel));
    id("require").focus();
  }
}
function know(word, head, required) {
  const here = knownHere();
  here.forbid = here.forbid.filter(([m, h]) => m !== word || h !== head);
  if (required) here.heads[word] = head;
  else {
    if (here.heads[word] === head) delete here.heads[word];
    here.forbid.push([word, head]);
  }
  pick(null);
  ask();
}
function showKnown(words) {
  const here = state.known[state.sentence] || { heads: {}, forbid: [] };
  const entry = (text, m, h, remove) => html("button", { type: "button", "aria-label": `remove: ${text}`, onclick: () => { remove(); tidy(); ask(); } },
    `${text}: ${wordName(words, h)} → ${wordName(words, m)} ×`);
  id("known").replaceChildren(
    ...Object.entries(here.heads).map(([m, h]) => entry("required", +m, h, () => { delete here.heads[m]; })),
    ...here.forbid.map(([m, h]) => entry("forbidden", m, h, () => { here.forbid = here.forbid.filter((arc) => arc[0] !== m || arc[1] !== h); })));
}
function tidy() {
  for (const [number, { heads, forbid }] of Object.entries(state.known)) if (!forbid.length && !Object.keys(heads).length) delete state.known[number];
}

// ---- copies ----

function asLatex(words, tree) {
  const safe = (text) => text.replace(/[\\{}$&#^_%~]/g, (c) => ({ "\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}" })[c] || `\\${c}`);
  const arcs = tree.heads.map((h, i) => (h ? `\\depedge{${h}}{${i + 1}}{${safe(tree.labels[i])}}` : `\\deproot{${i + 1}}{${safe(tree.labels[i])}}`));
  return `% \\usepackage{tikz-dependency}\n\\begin{dependency}\n\\begin{deptext}\n${words.map(safe).join(" \\& ")} \\\\\n\\end{deptext}\n${arcs.join("\n")}\n\\end{dependency}\n`;
}
async function offer(what, text) {
  const dialog = id("copy");
  dialog.querySelector("textarea").value = text;
  let done = false;
  try { await navigator.clipboard.writeText(text); done = true; } catch { /* not allowed here: it can be selected */ }
  dialog.querySelector("p").textContent = done ? `${what}, copied` : what;
  dialog.showModal();
  dialog.querySelector("textarea").select();
}

// ---- start ----

function readForm() {
  const before = [state.text, state.gold].join("\n");
  Object.assign(state, { text: id("text").value, model: id("model").value, more: id("more").value, gold: id("gold").value, k: Math.max(1, +id("k").value || 1) });
  state.decoders = [...document.querySelectorAll("#decoders input:checked")].map((box) => box.value);
  if ([state.text, state.gold].join("\n") !== before) Object.assign(state, { known: {}, sentence: 1 }); // words have other numbers
}
async function start() {
  theme();
  recall();
  const [models, { decoders, limits }] = await Promise.all(["/v1/models", "/v1/decoders"].map(async (path) => (await fetch(path)).json()));
  id("model").append(...models.map(({ name }) => html("option", { value: name, selected: name === state.model }, name)));
  if (!state.decoders.length && !state.more) state.decoders = ["own", "mst", "eisner"];
  id("decoders").append(...[{ name: "own", about: "the model’s own decoder" }, ...decoders].map(({ name, about }) => html("label", { title: about },
    html("input", { type: "checkbox", value: name, checked: state.decoders.includes(name) }), name)));
  for (const name of ["text", "more", "gold", "k"]) id(name).value = state[name];
  id("k").max = limits.k_best;
  id("gold-details").open = Boolean(state.gold);
  const submit = (event) => { if (event) event.preventDefault(); readForm(); pick(null); ask(); };
  id("form").addEventListener("submit", submit);
  for (const name of ["model", "k", "decoders"]) id(name).addEventListener("change", () => submit());
  id("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); });
  id("copy").querySelector("button").addEventListener("click", () => id("copy").close());
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && picked) pick(null); });
  ask();
}
start();
