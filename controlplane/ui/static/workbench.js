// What stands around the text of a query: tables to insert, queries of this user that this browser keeps, and the views
// and cells of a result. Queries are kept here and not by the service: their texts may hold secrets, and no log and no
// other user gets them. History ends when the user signs out (pages.js); saved queries stay until they are deleted.

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const MOST = 100, MOST_BYTES = 400_000; // of each list

// --- queries that are kept

const NO_ROOM = "Not saved: there is no room. Delete a saved query, or shorten this one.";

const fit = (rows) => rows.length <= MOST && new Blob([JSON.stringify(rows)]).size <= MOST_BYTES;

class KeptQueries {
  constructor(kind, user, dropsOldest) {
    this.key = `headgate ${kind} ${user}`;
    this.dropsOldest = dropsOldest;
  }

  read() {
    try {
      const rows = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      return rows.filter((row) => typeof row.name === "string" && typeof row.sql === "string");
    } catch {
      return []; // no list of ours, or the browser keeps nothing
    }
  }

  // The newest first; false where the browser, or the list, has no room.
  put(name, sql) {
    const rows = [{ name, sql }, ...this.read().filter((row) => row.name !== name)];
    while (this.dropsOldest && rows.length > 1 && !fit(rows)) rows.pop();
    return fit(rows) && this.write(rows);
  }

  drop(name) {
    return this.write(this.read().filter((row) => row.name !== name));
  }

  write(rows) {
    try {
      localStorage.setItem(this.key, JSON.stringify(rows));
      return true;
    } catch {
      return false;
    }
  }
}

const shortened = (text) => (text.length > 160 ? `${text.slice(0, 160)} ...` : text);

function button(text, label, work) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", className: "copy", textContent: text });
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", work);
  return made;
}

function list(box, kept, text) {
  box.querySelector("ol").replaceChildren(...kept.read().map(({ name, sql }) => {
    const row = document.createElement("li");
    const forget = () => { kept.drop(name); list(box, kept, text); };
    row.append(button(shortened(name), "", () => text.put(sql)), button("delete", `Delete ${shortened(name)}`, forget));
    return row;
  }));
}

// `text`: the editor, as `value`, `put` and `insert`. Answers what remembers a query that runs.
export function begin(form, text) {
  const user = form.getAttribute("data-user"); // its `dataset` is the field of this name
  const history = new KeptQueries("history", user, true), saved = new KeptQueries("saved", user, false);
  const past = form.querySelector("[data-history]"), names = form.querySelector("[data-saved]");
  const name = names.querySelector("[data-name]"), sign = names.querySelector("[data-kept]");
  const save = () => {
    const sql = text.value(), called = name.value.trim();
    if (!called || !sql.trim()) { sign.textContent = "It needs a name and a text."; return; }
    sign.textContent = saved.put(called, sql) ? `Saved ${called} in this browser.` : NO_ROOM;
    list(names, saved, text);
  };
  names.querySelector("[data-save]").addEventListener("click", save);
  name.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); save(); } });
  list(names, saved, text);
  const showHistory = () => {
    list(past, history, text);
    past.hidden = !history.read().length;
  };
  showHistory();
  addEventListener("storage", showHistory); // another tab signed out
  names.hidden = false;
  document.addEventListener("click", (event) => {
    const entry = event.target.closest?.("[data-insert]");
    if (!entry) return;
    event.preventDefault();
    text.insert(entry.dataset.insert, event.detail > 0); // by keyboard, the focus stays in the list
  });
  return (sql) => {
    history.put(sql, sql);
    showHistory();
  };
}

// --- keys in the list of tables: up and down, right opens, left closes

document.addEventListener("keydown", (event) => {
  const tree = event.target.closest?.("[data-tree]");
  if (!tree || !event.key.startsWith("Arrow")) return;
  const rows = all("summary, [data-insert]", tree).filter((row) => row.checkVisibility());
  const at = rows.indexOf(event.target), details = event.target.closest("details");
  if (event.key === "ArrowDown") rows[at + 1]?.focus();
  else if (event.key === "ArrowUp") rows[at - 1]?.focus();
  else if (details) {
    details.open = event.key === "ArrowRight";
    if (!details.open) details.querySelector("summary").focus();
  } else return;
  event.preventDefault();
});

// --- views of a result

document.addEventListener("click", (event) => {
  const view = event.target.closest?.("[data-views] a");
  if (!view) return;
  const isTable = "table" in view.dataset;
  if (isTable) event.preventDefault();
  for (const link of all("[data-views] a")) link.toggleAttribute("aria-current", link === view);
  view.setAttribute("aria-current", "true");
  document.getElementById("view").hidden = !isTable;
  document.getElementById("other-view").hidden = isTable;
});

// --- cells of a result

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function focusCell(cell) {
  if (!cell) return;
  cell.tabIndex = -1;
  cell.focus();
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}

async function copyCell(cell) {
  const value = cell.dataset.value ?? cell.textContent.trim();
  await navigator.clipboard?.writeText(value);
  document.querySelector("[data-copied]").textContent = `Copied ${value.length > 40 ? `${value.slice(0, 40)}...` : value}`;
}

document.addEventListener("keydown", (event) => {
  const grid = event.target.closest?.("[data-grid]");
  if (!grid || event.target.closest("button")) return;
  const cell = event.target.closest("td");
  if (cell && (event.ctrlKey || event.metaKey) && event.key === "c" && !getSelection().toString()) {
    event.preventDefault();
    copyCell(cell);
    return;
  }
  const step = STEPS[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const rows = grid.querySelector("tbody").rows;
  if (!cell) { focusCell(rows[0]?.cells[1]); return; }
  focusCell(rows[cell.parentElement.rowIndex - 1 + step[0]]?.cells[cell.cellIndex + step[1]]);
});
document.addEventListener("click", (event) => {
  const cell = event.target.closest?.("[data-grid] td");
  if (cell && !getSelection().toString()) focusCell(cell);
});
