// What pages do in the browser: theme, copying, keys, moving about in a graph, ranges of partitions, times, and the one live connection.
// All pages work without it but for these. Nothing is evaluated, and nothing is kept but the theme.
const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// --- theme and copying

function toggleTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=lax`;
}

async function copy(button) {
  await navigator.clipboard?.writeText(button.previousElementSibling.textContent);
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1200);
}

document.addEventListener("click", (event) => {
  const at = event.target.closest?.("[data-theme-toggle],[data-copy],[data-zoom],[data-find]");
  if (!at) return;
  if ("find" in at.dataset) find();
  if ("themeToggle" in at.dataset) toggleTheme();
  if ("copy" in at.dataset) copy(at);
  if (at.dataset.zoom) zoom(at.closest(".canvas").querySelector("[data-graph]"), at.dataset.zoom);
});

// --- the palette: all that has a name

const palette = document.getElementById("palette");

function find() {
  if (palette.open) { palette.close(); return; }
  palette.showModal();
  const field = palette.querySelector("input");
  field.select();
  if (palette.querySelector("[data-hit]")) return;
  const ask = () => field.dispatchEvent(new Event("input", { bubbles: true }));
  // htmx starts after the page has loaded: a key may be pressed before
  if (field.dataset.htmxPowered) ask();
  else field.addEventListener("htmx:after:init", ask, { once: true });
}

// Arrows go through the results, Enter opens the first one.
palette?.addEventListener("keydown", (event) => {
  const hits = all("[data-hit]", palette), at = hits.indexOf(document.activeElement);
  if (event.key === "ArrowDown") hits[Math.min(at + 1, hits.length - 1)]?.focus();
  else if (event.key === "ArrowUp") (hits[at - 1] ?? palette.querySelector("input")).focus();
  else if (event.key === "Enter" && at < 0 && hits[0]) hits[0].click();
  else return;
  event.preventDefault();
});
palette?.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });

// --- keys

const PLACES = {
  h: "/", f: "/flows", d: "/datasets", b: "/branches", p: "/plan", q: "/query", a: "/activity", c: "/checks",
  s: "/sources",
};
let wasG = false;
const branch = document.body.dataset.branch ?? "main";
const within = (path) => branch === "main" ? path : `${path}?branch=${encodeURIComponent(branch)}`;

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && palette && !event.target.closest?.(".editor")) { event.preventDefault(); find(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input,textarea,select,.editor")) return;
  const node = event.target.closest?.(".node");
  const isWalk = node?.ownerSVGElement?.matches("[data-graph]") && event.key.startsWith("Arrow");
  if (isWalk) { walk(node, event.key); event.preventDefault(); }
  else if (wasG && PLACES[event.key]) location.assign(within(PLACES[event.key]));
  else if (event.key === "/") { event.preventDefault(); search()?.focus(); }
  else if (event.key === "?") location.assign(within("/help/keys"));
  else if (event.key === "f") all("[data-graph]").forEach((graph) => zoom(graph, "fit"));
  wasG = event.key === "g";
});

// A page that is about searching has a field of its own.
const search = () => document.querySelector("form[data-search] input[type=search]") ?? document.querySelector(".search input");

const place = (node) => node.transform.baseVal[0].matrix;

// Left and right follow edges, up and down go through a column: as the eye does.
function walk(node, key) {
  const graph = node.ownerSVGElement, here = place(node), nodes = all(".node", graph);
  const distance = (other) => Math.abs(place(other).f - here.f);
  const next = {
    ArrowRight: () => ends(graph, node, "from", "to"),
    ArrowLeft: () => ends(graph, node, "to", "from"),
    ArrowDown: () => nodes.filter((n) => place(n).e === here.e && place(n).f > here.f),
    ArrowUp: () => nodes.filter((n) => place(n).e === here.e && place(n).f < here.f),
  }[key]();
  next.sort((a, b) => distance(a) - distance(b))[0]?.focus();
}

function ends(graph, node, from, to) {
  const names = new Set(all(".link", graph).filter((l) => l.dataset[from] === node.dataset.name).map((l) => l.dataset[to]));
  return all(".node", graph).filter((n) => names.has(n.dataset.name));
}

// --- graphs: a canvas that scrolls. Zoom makes the picture larger, and never smaller than its texts can be read

const LARGEST = 2.5, WIDEST_FIT = 1.4, GROWTH = 1.25, DOUBLE_MS = 250;
let scale = null; // as chosen; else as the page has it

const size = (graph) => graph.width.baseVal.value / graph.dataset.w;

function resize(graph, to) {
  const scroller = graph.parentElement, before = size(graph);
  scale = Math.min(Math.max(to, 1), LARGEST);
  const x = (scroller.scrollLeft + scroller.clientWidth / 2) * scale / before;
  const y = (scroller.scrollTop + scroller.clientHeight / 2) * scale / before;
  graph.setAttribute("width", Math.round(graph.dataset.w * scale));
  graph.setAttribute("height", Math.round(graph.dataset.h * scale));
  scroller.scrollTo(x - scroller.clientWidth / 2, y - scroller.clientHeight / 2);
  showWindow(scroller);
}

function zoom(graph, how) {
  if (!graph) return;
  if (how === "fit") resize(graph, Math.min(graph.parentElement.clientWidth / graph.dataset.w, WIDEST_FIT));
  else resize(graph, size(graph) * (how === "in" ? GROWTH : 1 / GROWTH));
}

let drag = null;
document.addEventListener("wheel", (event) => {
  const graph = event.target.closest?.("[data-graph]");
  if (!graph || !(event.ctrlKey || event.metaKey)) return; // the page scrolls, as pages do
  event.preventDefault();
  zoom(graph, event.deltaY < 0 ? "in" : "out");
}, { passive: false });
document.addEventListener("pointerdown", (event) => {
  const scroller = event.target.closest?.("[data-scroller]");
  if (scroller && event.pointerType !== "touch" && event.button === 0) drag = { scroller, x: event.clientX, y: event.clientY, far: 0 };
});
addEventListener("pointerup", () => { setTimeout(() => { drag = null; }); });
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  drag = { ...drag, x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
  if (drag.far >= 6) drag.scroller.scrollBy(-dx, -dy);
});
document.addEventListener("click", (event) => { if (drag?.far >= 6) event.preventDefault(); }, true);
document.addEventListener("dragstart", (event) => { if (event.target.closest?.("[data-graph],[data-axis]")) event.preventDefault(); });

// A click chooses, a double click opens: so a click shows its choice, and waits for a second one.
let choosing = null;
const isPlain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey);
document.addEventListener("click", (event) => {
  const node = event.target.closest?.("[data-graph] .node:not(.group)");
  if (!node || event.defaultPrevented || event.detail === 0 || !isPlain(event)) return;
  if (node.href.baseVal.startsWith("#")) return; // a place of this page: nothing to wait for
  event.preventDefault();
  all(".node", node.ownerSVGElement).forEach((other) => other.classList.toggle("on", other === node));
  clearTimeout(choosing);
  choosing = setTimeout(() => location.assign(node.href.baseVal), DOUBLE_MS);
});
document.addEventListener("dblclick", (event) => {
  const node = event.target.closest?.("[data-graph] .node:not(.group)");
  if (!node) return;
  clearTimeout(choosing);
  location.assign(within(`/datasets/${node.dataset.name}`));
});

// The small map: where the window is, and a way to go there.
function showWindow(scroller) {
  const map = scroller.parentElement.querySelector("[data-map]"), graph = scroller.querySelector("[data-graph]");
  if (!map || !graph) return;
  const by = size(graph), here = map.querySelector("[data-window]");
  const sizes = { x: scroller.scrollLeft, y: scroller.scrollTop, width: scroller.clientWidth, height: scroller.clientHeight };
  for (const [name, value] of Object.entries(sizes)) here.setAttribute(name, value / by);
}
document.addEventListener("scroll", (event) => { hideCard(); if (event.target.matches?.("[data-scroller]")) showWindow(event.target); }, true);
function goTo(event) {
  const map = event.target.closest?.("[data-map]");
  if (!map || !(event.buttons & 1)) return;
  const scroller = map.parentElement.querySelector("[data-scroller]"), graph = scroller.querySelector("[data-graph]");
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse()), by = size(graph);
  scroller.scrollTo(at.x * by - scroller.clientWidth / 2, at.y * by - scroller.clientHeight / 2);
}
for (const how of ["pointerdown", "pointermove"]) document.addEventListener(how, goTo);

// Boxes that have the words and a chosen state light up.
const lit = new Set();
let words = null;
function filterBoxes(form) {
  const graph = form.parentElement.querySelector("[data-graph]"), field = form.elements.find, status = form.querySelector("[data-hits]");
  for (const button of all("[data-state]", form)) button.setAttribute("aria-pressed", lit.has(button.dataset.state));
  if (!graph) return;
  const text = field.value.trim().toLowerCase(), isOn = text !== "" || lit.size > 0, nodes = all(".node", graph);
  const hits = nodes.filter((node) => node.dataset.name.toLowerCase().includes(text) && (!lit.size || [...lit].some((state) => node.classList.contains(state))));
  for (const node of nodes) {
    node.classList.toggle("hit", isOn && hits.includes(node));
    node.classList.toggle("miss", isOn && !hits.includes(node));
  }
  status.textContent = isOn ? `${hits.length} of ${nodes.length} boxes` : "";
}
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("[data-finder]");
  if (!form || event.target.name !== "find") return;
  words = event.target.value;
  filterBoxes(form);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-finder] [data-state]");
  if (!button) return;
  if (!lit.delete(button.dataset.state)) lit.add(button.dataset.state);
  filterBoxes(button.form);
});
function keepCanvas() {
  for (const form of all("[data-finder]")) {
    if (words !== null) form.elements.find.value = words;
    filterBoxes(form);
  }
  for (const graph of all("[data-graph]")) {
    if (scale !== null) resize(graph, scale);
    showWindow(graph.parentElement);
  }
}

// A card beside a box or a cell: an SVG over the page, whose attributes say where, so no style is needed
const SVG = "http://www.w3.org/2000/svg", CARD = { width: 250, height: 140, gap: 8 };
function showCard(beside, lines) {
  hideCard();
  const over = document.createElementNS(SVG, "svg"), card = document.createElementNS(SVG, "foreignObject"), box = document.createElement("div");
  const at = beside.getBoundingClientRect(), isRight = at.right + CARD.gap + CARD.width <= innerWidth;
  const x = isRight ? at.right + CARD.gap : Math.max(at.left - CARD.width - CARD.gap, 0);
  const y = Math.max(Math.min(at.top, innerHeight - CARD.height), 0);
  for (const [name, value] of Object.entries({ x, y, width: CARD.width, height: CARD.height })) card.setAttribute(name, value);
  over.setAttribute("class", "hover");
  over.setAttribute("aria-hidden", "true"); // the box says the same
  for (const line of lines.filter(Boolean)) box.append(Object.assign(document.createElement("p"), { textContent: line }));
  card.append(box);
  over.append(card);
  document.body.append(over);
}
function hideCard() { all(".hover").forEach((card) => card.remove()); }

function cardOf(event) {
  const node = event.target.closest?.("[data-graph] .node");
  if (!node) return;
  const about = node.getAttribute("aria-label").split(", ").slice(0, -1).join(", ").replace(/^\S+ /, "");
  showCard(node.querySelector(".box"), [node.dataset.name, about, node.dataset.why]);
}
for (const how of ["pointerover", "focusin"]) document.addEventListener(how, cardOf);
for (const how of ["pointerout", "focusout"]) document.addEventListener(how, (event) => { if (event.target.closest?.(".node,[data-axis] a")) hideCard(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideCard(); });

function light(event, isOn) {
  const node = event.target.closest?.(".node"), name = node?.dataset.name;
  if (!node || (node.classList.contains("on") && !isOn)) return;
  for (const link of all(".link", node.ownerSVGElement)) {
    if (link.dataset.from === name || link.dataset.to === name) link.classList.toggle("lit", isOn);
  }
}
for (const how of ["pointerover", "focusin"]) document.addEventListener(how, (event) => light(event, true));
for (const how of ["pointerout", "focusout"]) document.addEventListener(how, (event) => light(event, false));

// --- partitions: arrows walk over cells; a drag, or Shift with a click or an arrow, chooses a range of keys

let anchor = null, sweep = null;
const squares = (axis) => all("a[data-last]", axis);

function choose(axis, from, to) {
  const every = squares(axis), [first, last] = [from, to].map((cell) => every.indexOf(cell)).sort((a, b) => a - b);
  every.forEach((cell, i) => cell.classList.toggle("chosen", i >= first && i <= last));
  const form = axis.closest(".card").querySelector("[data-range]"), start = every[first].dataset.last;
  // Keys behind the cell before: several squares may show one range
  const before = every.slice(0, first).reverse().find((cell) => cell.dataset.last !== start);
  form.elements.from.value = before?.dataset.last ?? axis.dataset.after;
  form.elements.to.value = every[last].dataset.last;
  form.querySelector("[data-range-words]").textContent = `${last - first + 1} ${last === first ? "cell" : "cells"} chosen`;
}

function step(cell, key) {
  const axis = cell.ownerSVGElement, here = cell.firstElementChild, at = (a) => a.firstElementChild;
  const isAcross = key === "ArrowLeft" || key === "ArrowRight", sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const [along, across] = isAcross ? ["x", "y"] : ["y", "x"], value = (rect, name) => rect[name].baseVal.value;
  const gap = (a) => (value(at(a), along) - value(here, along)) * sign;
  return all("a", axis).filter((a) => value(at(a), across) === value(here, across) && gap(a) > 0).sort((a, b) => gap(a) - gap(b))[0];
}

document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.("[data-axis] a");
  if (!cell || !event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const next = step(cell, event.key);
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  if (!event.shiftKey) anchor = null;
  else if (next.dataset.last !== undefined) choose(next.ownerSVGElement, anchor ??= cell, next);
});
document.addEventListener("click", (event) => {
  const cell = event.target.closest?.("[data-axis] a[data-last]");
  if (!cell) return;
  if (sweep?.isOver) { event.preventDefault(); return; }
  if (!event.shiftKey) return;
  event.preventDefault();
  anchor = anchor?.isConnected ? anchor : cell;
  choose(cell.ownerSVGElement, anchor, cell);
}, true);
document.addEventListener("pointerdown", (event) => {
  const cell = event.target.closest?.("[data-axis] a[data-last]");
  if (cell && isPlain(event) && event.pointerType !== "touch") sweep = { cell, isOver: false };
});
addEventListener("pointerup", () => { setTimeout(() => { sweep = null; }); });
document.addEventListener("pointerover", (event) => {
  const cell = event.target.closest?.("[data-axis] a");
  if (!cell) return;
  if (sweep && cell !== sweep.cell && cell.ownerSVGElement === sweep.cell.ownerSVGElement && cell.dataset.last !== undefined) {
    sweep.isOver = true;
    choose(cell.ownerSVGElement, anchor = sweep.cell, cell);
  }
});
function cardOfCell(event) {
  const cell = event.target.closest?.("[data-axis] a"), rect = cell?.firstElementChild;
  if (!cell) return;
  showCard(rect, cell.getAttribute("aria-label").split("; "));
}
for (const how of ["pointerover", "focusin"]) document.addEventListener(how, cardOfCell);

// --- the menu of branches

document.addEventListener("input", (event) => {
  const words = event.target.closest?.("[data-narrow]")?.value.toLowerCase();
  if (words === undefined) return;
  for (const row of all("li", event.target.closest("[data-menu]"))) row.hidden = !row.textContent.toLowerCase().includes(words);
});

// It closes as menus do.
function closeMenus(but) {
  for (const menu of all("[data-menu][open]")) if (!menu.contains(but)) menu.open = false;
}
document.addEventListener("click", (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("[data-menu][open]");
  if (!menu) return;
  closeMenus(null);
  menu.querySelector("summary").focus();
});

// --- search as one types: the address says what is looked for, and the list is asked for again

const TYPED_MS = 200;
let typed = null;

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-search]");
  if (!form) return;
  clearTimeout(typed);
  typed = setTimeout(() => lookFor(form), TYPED_MS);
});

function lookFor(form) {
  const [path] = form.getAttribute("action").split("?"); // of a branch, the action names it too
  const list = document.getElementById(form.dataset.search);
  const fields = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const branch = new URLSearchParams(location.search).get("branch");
  if (branch) fields.set("branch", branch);
  history.replaceState(history.state, "", fields.size ? `${path}?${fields}` : path);
  fields.set("part", form.dataset.search);
  list.setAttribute("hx-get", `${path}?${fields}`);
  list.dispatchEvent(new CustomEvent("moved"));
}

// --- several at once: what is chosen, counted

const boxes = (form) => all(`input[type=checkbox][form="${form}"]`);

document.addEventListener("change", (event) => {
  const form = event.target.dataset?.all ?? event.target.getAttribute("form");
  if (event.target.dataset?.all) boxes(form).forEach((one) => { one.checked = event.target.checked; });
  if (form) count(form);
});

function count(form) {
  const every = boxes(form), chosen = every.filter((one) => one.checked).length;
  const words = document.querySelector(`#${form} [data-chosen]`), whole = document.querySelector(`[data-all="${form}"]`);
  if (words) words.textContent = chosen ? `${chosen} chosen:` : "Of what is chosen:";
  if (whole) { whole.checked = chosen === every.length; whole.indeterminate = chosen > 0 && chosen < every.length; }
}

// --- times in the reader's zone

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const INSTANT = /\b(since|at|to)\s*$/; // "since 2 h ago" is no English
const year = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

// Up to a day: a date says more of what is older, or is to come.
function relative(seconds) {
  if (seconds < 0 || seconds >= 86400) return null;
  if (seconds < 60) return "just now";
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3600)} h ago`;
}

function localTimes(within) {
  for (const time of all("time[datetime]", within)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const seconds = (Date.now() - at) / 1000;
    const isToday = at.toDateString() === new Date().toDateString(); // else a time alone would be taken for one of today
    const short = INSTANT.test(time.previousSibling?.textContent ?? "") ? isToday && clock.format(at) : relative(seconds);
    time.textContent = short || (Math.abs(seconds) < 26e6 ? day : year).format(at);
    time.title = `${full.format(at)} (${time.dateTime})`;
  }
}

// --- live: events say what moved, and parts of the page that show it are asked for again

const KINDS = [
  "blueprint.applied", "blueprint.deleted", "branch.merged", "claim.failed", "dataset.committed", "dataset.failing",
  "dataset.fresh", "dataset.jumped", "dataset.late", "dataset.log_made_anew", "dataset.lost", "dataset.publish_failed",
  "dataset.published", "driver.ended", "listing.done", "listing.failed", "listing.held", "listing.repeated",
  "operator.import", "operator.pause", "operator.refresh", "operator.resume", "operator.retry", "operator.rollback", "operator.run",
  "partitions.adopted", "partitions.written", "source.changed", "task.claimed", "task.executed", "task.failed",
  "task.other", "task.recovered", "task.retried",
];
const TOGETHER_MS = 500, ANYWAY_MS = 60_000;
const stream = document.body.dataset.stream;
const channel = stream && "BroadcastChannel" in window ? new BroadcastChannel(`headgate ${branch}`) : null;
let source = null, giveUp = null, isLeaving = false, moved = new Set(), timer = null;
let newest = Number(document.body.dataset.after); // the id of the last event that this page shows, or will

function say(words, isOff) {
  const sign = document.querySelector("[data-live-sign]");
  if (!sign) return;
  sign.classList.toggle("off", isOff);
  sign.querySelector("span").textContent = words;
}

function note(names) {
  names.forEach((name) => moved.add(name));
  timer ??= setTimeout(look, TOGETHER_MS);
}

// A field with the cursor in it is never replaced: its part waits until it is left.
function isTyped(part) {
  return part.contains(document.activeElement) && document.activeElement.matches("input,textarea,select,.editor");
}

function look() {
  timer = null;
  const names = moved;
  moved = new Set();
  if (document.hidden || isLeaving) { names.forEach((name) => moved.add(name)); return; }
  for (const part of all("[data-live]")) {
    const wanted = part.dataset.live.split(" ");
    if (!wanted.some((name) => names.has(name)) && !names.has("everything")) continue;
    if (isTyped(part)) note(wanted);
    else part.dispatchEvent(new CustomEvent("moved"));
  }
}

// Of what another tab has seen and this one has not, nothing is known but that it is there.
function hear(message) {
  if (message.hello !== undefined && source && newest > message.hello) channel.postMessage({ newest });
  if (message.newest > newest) note(["everything"]);
  newest = Math.max(newest, message.id ?? 0, message.newest ?? 0);
  if (message.names) note(message.names);
  if (message.state) say(message.state, message.isOff);
}

function tell(message) {
  hear(message);
  channel?.postMessage(message);
}

function open() {
  source = new EventSource(`${stream}&after=${newest}`);
  source.onopen = () => tell({ state: "live", isOff: false });
  source.onerror = () => tell({ state: source?.readyState === EventSource.CLOSED ? "not live" : "reconnecting", isOff: true });
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      const dataset = JSON.parse(event.data).dataset ?? "";
      tell({ id: Number(event.lastEventId), names: ["all", `dataset:${dataset}`, `flow:${dataset.split(".")[0]}`] });
    });
  }
}

function close() {
  source?.close();
  source = null;
  giveUp?.();
  giveUp = null;
}

// Of all tabs of a branch that can be seen one has the stream: a browser opens six connections to a host, and a stream is one.
function lead() {
  if (!navigator.locks) { open(); giveUp = () => {}; return; }
  const abort = new AbortController();
  giveUp = () => abort.abort();
  navigator.locks.request(`headgate-stream ${branch}`, { signal: abort.signal }, () => new Promise((free) => {
    giveUp = free;
    open();
  })).catch(() => {});
}

function follow() {
  if (document.hidden) { close(); say("paused", true); return; }
  if (giveUp || isLeaving) return;
  say("live", false);
  lead();
  channel?.postMessage({ hello: newest });
  if (moved.size) note([]);
}

// Whatever was missed is seen now, and a stream that was refused is asked for again.
function anyway() {
  note(["everything"]);
  if (source?.readyState === EventSource.CLOSED) open();
}

// Requests of a page that is left, or of a session that ends, are stopped here: where the browser stops them, they are errors.
const requests = new Set();
document.addEventListener("htmx:before:request", (event) => {
  if (isLeaving) event.preventDefault();
  else requests.add(event.detail.ctx.request);
});
document.addEventListener("htmx:finally:request", (event) => requests.delete(event.detail.ctx.request));

function leave() {
  isLeaving = true;
  close();
  if (requests.size) moved.add("everything"); // if the reader comes back to this page
  requests.forEach((request) => request.abort());
}

if (stream) {
  document.querySelector("form[action='/logout']")?.addEventListener("submit", leave);
  channel?.addEventListener("message", (event) => hear(event.data));
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => {
    if (event.persisted) isLeaving = false; // back to a page as it was left
    follow();
  });
  setInterval(anyway, ANYWAY_MS);
  follow();
}

// --- the history of queries ends with the session

if (location.pathname === "/login") {
  sessionStorage.clear(); // earlier versions had the history there
  for (const key of Object.keys(localStorage)) if (key.startsWith("headgate history ")) localStorage.removeItem(key);
}

// --- the editor, on the pages that have one

const field = document.querySelector("[data-editor]");
if (field) import(field.dataset.module).then((editor) => editor.begin()).catch(() => {}); // the field is there

// --- parts that could not be had again stay as they are, and say so

document.addEventListener("htmx:after:request", (event) => {
  const { sourceElement, response } = event.detail.ctx ?? {};
  const status = response?.raw?.status ?? 0;
  sourceElement?.classList?.toggle("old", status >= 400 || status === 0);
});
document.addEventListener("htmx:error", (event) => event.detail.ctx?.sourceElement?.classList?.add("old"));
// --- the open tab of a row that is wider than the screen

document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// --- the tab says how everything stands

function nameTab() {
  const { tabTitle, tabIcon } = document.querySelector("[data-tab-title]")?.dataset ?? {};
  if (!tabTitle) return;
  document.title = tabTitle;
  document.querySelector("link[rel=icon]").href = tabIcon;
}
document.addEventListener("htmx:after:swap", () => {
  nameTab();
  localTimes(document);
  all("form[data-bulk]").forEach((form) => count(form.id));
  keepCanvas();
});
localTimes(document);
keepCanvas();

// --- logs of attempts: lines that have a text, and the end of a log that goes on

function showLog(log) {
  const words = log.querySelector("[data-log-find]")?.value.toLowerCase() ?? "";
  for (const line of all(".line", log)) line.hidden = !line.textContent.toLowerCase().includes(words);
  const pane = log.querySelector("div.log");
  if (pane && log.querySelector("[data-log-follow]")?.checked) pane.scrollTop = pane.scrollHeight;
}
for (const how of ["input", "htmx:after:swap"]) {
  document.addEventListener(how, () => all("[data-log]").forEach(showLog));
}
