// The editor over a field of SQL or of a blueprint: colours, completion, and problems at their place. The field stays
// what is sent, and is all there is where this module is not loaded. CodeMirror writes its styles into the shadow root
// as sheets that are adopted: the page's policy allows no style elements.

import { DUCKDB, keys, tables } from "./completion.js";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const CHECK_MS = 700;

export async function mount(field) {
  const cm = await import(field.dataset.codemirror);
  const host = document.createElement("div");
  host.className = "editor";
  field.before(host);
  const shadow = host.attachShadow({ mode: "open" });
  const view = new cm.EditorView({ root: shadow, parent: shadow, state: stateOf(cm, field) });
  host.style.setProperty("--rows", field.rows);
  if (document.activeElement === field) { // typing goes on in the editor, at the same place
    view.dispatch({ selection: { anchor: field.selectionStart, head: field.selectionEnd } });
    view.focus();
  }
  field.hidden = true;
  field.required = false; // a field that cannot be seen cannot be pointed at
  field.closest("label")?.addEventListener("click", () => view.focus());
  return { view, show: (problems) => show(cm, view, problems), goTo: (line, column) => goTo(view, line, column) };
}

function stateOf(cm, field) {
  const isSql = field.dataset.editor === "sql", form = field.form;
  const dialect = isSql ? cm.SQLDialect.define({ ...DUCKDB, doubleQuotedStrings: false }) : null;
  const submit = (view) => {
    cm.closeCompletion(view);
    form.requestSubmit(form.querySelector("button[name=do]:not([disabled])"));
    return true;
  };
  return cm.EditorState.create({
    doc: field.value,
    extensions: [
      cm.lineNumbers(), cm.highlightSpecialChars(), cm.history(), cm.drawSelection(), cm.indentOnInput(),
      cm.lintGutter(),
      cm.bracketMatching(), cm.closeBrackets(), cm.highlightActiveLine(), cm.highlightSelectionMatches(),
      cm.indentUnit.of("  "), cm.EditorView.lineWrapping, theme(cm), cm.syntaxHighlighting(colours(cm)),
      isSql ? cm.sql({ dialect, upperCaseKeywords: true }) : cm.yaml(),
      isSql ? dialect.language.data.of({ autocomplete: tables(field) }) : [],
      cm.autocompletion({ icons: false, ...(isSql ? {} : { override: [keys(field)] }) }),
      cm.keymap.of([
        { key: "Mod-Enter", run: submit }, ...cm.closeBracketsKeymap, ...cm.completionKeymap, ...cm.historyKeymap,
        ...cm.searchKeymap, ...cm.lintKeymap, ...cm.defaultKeymap, // Tab leaves the editor, as it leaves every field
      ]),
      cm.EditorView.contentAttributes.of({
        "aria-label": field.labels[0]?.textContent.trim() ?? "Text", spellcheck: "false", tabindex: "0",
      }),
      cm.EditorView.domEventHandlers({ beforeinput: (event, view) => typedOver(cm, event, view) }),
      cm.EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        field.value = update.state.doc.toString();
        field.dispatchEvent(new Event("edited", { bubbles: true }));
      }),
    ],
  });
}

// Chromium keeps the looks of what is typed over by a style attribute, which the page's policy refuses.
function typedOver(cm, event, view) {
  const { from, to, empty } = view.state.selection.main;
  if (event.inputType !== "insertText" || !event.data || empty || view.composing) return false;
  const typed = () => view.state.update({
    changes: { from, to, insert: event.data }, selection: { anchor: from + event.data.length }, userEvent: "input.type",
  });
  const isHandled = view.state.facet(cm.EditorView.inputHandler).some((one) => one(view, from, to, event.data, typed));
  if (!isHandled) view.dispatch(typed());
  event.preventDefault();
  return true;
}

function theme(cm) {
  const mono = "var(--mono)";
  return cm.EditorView.theme({
    "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--ground)", fontSize: "12.5px" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": {
      fontFamily: mono, lineHeight: "1.55", minHeight: "calc(var(--rows) * 1.55em + 10px)", maxHeight: "var(--most, 70vh)",
      overflow: "auto",
    },
    ".cm-content": { caretColor: "var(--ink)", padding: "5px 0" },
    ".cm-cursor": { borderLeftColor: "var(--ink)" },
    ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--faint)", border: "none" },
    ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-ground) 45%, transparent)" },
    ".cm-selectionBackground": { backgroundColor: "var(--accent-ground) !important" },
    ".cm-selectionMatch": { backgroundColor: "var(--stale-ground)" },
    "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-ground)", outline: "1px solid var(--accent)" },
    ".cm-tooltip": {
      backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "6px",
      boxShadow: "var(--shadow)",
    },
    ".cm-tooltip-autocomplete > ul": { fontFamily: mono, maxHeight: "14em" },
    ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
      backgroundColor: "var(--accent-ground)", color: "var(--accent)",
    },
    ".cm-completionInfo": { maxWidth: "320px", padding: "8px 10px", fontFamily: "system-ui, sans-serif" },
    ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", marginLeft: "10px" },
    ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", padding: "6px 10px", maxWidth: "520px" },
    ".cm-diagnostic-error": { borderLeft: "3px solid var(--fail)" },
    ".cm-lintRange-error": {
      backgroundImage: "none", textDecoration: "underline wavy var(--fail) 1.5px", textUnderlineOffset: "3px",
    },
    ".cm-lint-marker-error": { // no picture: it would come from a data: address
      content: "normal", width: "8px", height: "8px", margin: "6px 3px", borderRadius: "50%", background: "var(--fail)",
    },
    ".cm-panels": { backgroundColor: "var(--card)", color: "var(--ink)" },
    ".cm-panels input, .cm-panels button": {
      font: "inherit", color: "var(--ink)", background: "var(--ground)", border: "1px solid var(--faint)",
    },
  });
}

// As code is coloured elsewhere on the pages.
function colours(cm) {
  const t = cm.tags;
  return cm.HighlightStyle.define([
    { tag: [t.keyword, t.operatorKeyword, t.modifier], color: "light-dark(#7b3fa0, #cf9bf0)" },
    { tag: [t.definition(t.propertyName), t.propertyName], color: "var(--accent)" },
    { tag: [t.string, t.special(t.string)], color: "light-dark(#8a5a00, #f0b849)" },
    { tag: [t.number, t.bool, t.null, t.typeName], color: "light-dark(#1f5fbf, #7db4ff)" },
    { tag: [t.comment], color: "var(--faint)" },
  ]);
}

// --- problems

function offset(doc, line, column) {
  const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
  return Math.min(at.from + Math.max(column - 1, 0), at.to);
}

// From the place to the end of its word.
function show(cm, view, problems) {
  const doc = view.state.doc;
  const diagnostics = problems.filter((one) => one.line).map((one) => {
    const from = offset(doc, one.line, one.column), line = doc.lineAt(from);
    const word = /^[\w.]+|^\S/.exec(line.text.slice(from - line.from))?.[0] ?? "";
    const message = [one.message, one.hint].filter(Boolean).join(" ");
    return { from, to: from + word.length, severity: "error", message };
  });
  view.dispatch(cm.setDiagnostics(view.state, diagnostics));
}

function goTo(view, line, column) {
  const at = offset(view.state.doc, line, column);
  view.dispatch({ selection: { anchor: at }, scrollIntoView: true });
  view.focus();
}

// What is wrong with a draft, some time after the last letter. The problems that are told last stay until then.
export function checked(field, editor, told) {
  let timer = null, asked = 0;
  field.addEventListener("edited", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const number = ++asked, form = new FormData(field.form);
      form.set("do", "check");
      const how = { method: "POST", body: new URLSearchParams(form), headers: { Accept: "application/json" } };
      const sent = fetch(field.form.action, how).then((answer) => (answer.ok ? answer.json() : null));
      const checks = await sent.catch(() => null); // a page that is left ends the request, or its answer
      if (!checks || number !== asked) return;
      const { problems } = checks;
      editor.show(problems);
      told(problems);
    }, CHECK_MS);
  });
}

// --- the pages of queries and plans

export async function begin() {
  for (const field of all("[data-editor]")) {
    if (field.dataset.editor === "sql") await query(field);
    else await blueprint(field);
  }
}

// Problems that the page tells, as the editor shows them.
function told(within) {
  return all("[data-problem]", within).map(({ dataset }) => (
    { line: Number(dataset.line), column: Number(dataset.column), message: dataset.message, hint: "" }));
}

async function blueprint(field) {
  const text = await linked(), stored = field.value;
  if (text !== null && !document.querySelector("[data-problem], #changesh")) field.value = text;
  const editor = await mount(field), sign = document.querySelector("[data-checked]");
  editor.show(told(document));
  if (field.value !== stored) sign.textContent = "The text is of a link: plan it to see what it would change.";
  if (!editor.view.hasFocus) lookAt(editor.view, Number(field.dataset.line)); // a user who types goes on
  share(field);
  if (!field.form.querySelector("button[name=do]").disabled) {
    checked(field, editor, (problems) => {
      const word = problems.length === 1 ? "problem" : "problems";
      sign.textContent = problems.length ? `${problems.length} ${word}` : "no problems";
    });
  }
  const goToProblem = (link) => {
    const { line, column } = link.closest("[data-problem]").dataset;
    editor.goTo(Number(line), Number(column));
  };
  document.addEventListener("click", (event) => {
    const at = event.target.closest?.("a[href^='#at-']")?.getAttribute("href").slice(1);
    const line = at && document.getElementById(at)?.dataset.at;
    if (line) lookAt(editor.view, Number(line));
    const link = event.target.closest?.("[data-problem] a");
    if (!link) return;
    event.preventDefault();
    goToProblem(link);
  });
  const followed = all("[data-problem] a").find((link) => link.hash === location.hash); // before the editor was there
  if (followed) goToProblem(followed);
}

// The line at the top of the editor, without moving the page or the focus.
function lookAt(view, line) {
  const at = offset(view.state.doc, line, 1);
  view.dispatch({ selection: { anchor: at } });
  const top = () => view.lineBlockAt(at).top;
  view.requestMeasure({ read: top, write: (y) => { view.scrollDOM.scrollTop = line > 1 ? Math.max(0, y - 24) : 0; } });
}

// A draft in a link stands behind the # of the address, which no server sees, and packed: a blueprint is long.
const LONGEST_LINK = 60_000, LONGEST_DRAFT = 4_500_000; // characters of a link, and bytes of its text

// Raises RangeError where more comes out: a short link may be packed of a text that no tab has room for.
async function through(stream, bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader(), parts = [];
  let size = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    size += step.value.length;
    if (size > LONGEST_DRAFT) { reader.cancel().catch(() => {}); throw new RangeError("too long"); }
    parts.push(step.value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function packed(text) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_");
}

async function linked() {
  if (!location.hash.startsWith("#text=") || location.hash.length > LONGEST_LINK) return null;
  try {
    const text = atob(location.hash.slice(6).replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), Uint8Array.from(text, (c) => c.charCodeAt(0))));
  } catch {
    return null; // no text of ours
  }
}

function share(field) {
  const button = document.querySelector("[data-share]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    const hash = `#text=${await packed(field.value)}`;
    if (hash.length > LONGEST_LINK) { button.textContent = "Too long for a link"; return; }
    history.replaceState(history.state, "", hash);
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    button.textContent = "Link copied";
  });
}

// The text of a query is kept behind the # of the address, which no server sees.
function hashed() {
  try {
    return location.hash.startsWith("#q=") ? decodeURIComponent(location.hash.slice(3)) : null;
  } catch {
    return null; // no text of ours
  }
}

function newId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function query(field) {
  const form = field.form, text = hashed(), result = document.querySelector("#result");
  if (text !== null && !result.firstElementChild) field.value = text;
  const [editor, workbench] = await Promise.all([mount(field), import("./workbench.js")]);
  const put = (value) => {
    if (value === field.value) return;
    editor.view.dispatch({ changes: { from: 0, to: editor.view.state.doc.length, insert: value } });
  };
  const remember = workbench.begin(form, { value: () => field.value, put, insert: (name, isFocused) => insert(editor.view, name, isFocused) });
  const show = () => editor.show(told(document.querySelector("#result")));
  form.addEventListener("submit", () => {
    form.elements.once.value = newId();
    if (hashed() !== field.value) history.pushState(null, "", `#q=${encodeURIComponent(field.value)}`);
    remember(field.value);
  }, { capture: true });
  addEventListener("popstate", () => { if (hashed() !== null) put(hashed()); });
  document.addEventListener("htmx:after:swap", show);
  show();
  if (form.hasAttribute("data-runs") && text === null && !result.firstElementChild) {
    history.replaceState(history.state, "", `#q=${encodeURIComponent(field.value)}`); // a reload does not run it again
    form.requestSubmit(form.querySelector("button[name=do]:not([disabled])"));
  }
}

// At the caret, apart from a word before it.
function insert(view, name, isFocused) {
  const { from, to } = view.state.selection.main, before = view.state.doc.sliceString(Math.max(0, from - 1), from);
  const text = /[\w,)"]/.test(before) ? ` ${name}` : name;
  view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length } });
  if (isFocused) view.focus();
}
