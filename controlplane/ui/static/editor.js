// The editor over a field of SQL or of a blueprint: colours, completion, and problems at their place. The field stays
// what is sent, and is all there is where this module is not loaded. CodeMirror writes its styles into the shadow root
// as sheets that are adopted: the page's policy allows no style elements.

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const CHECK_MS = 700;
// What one writes in a SELECT of DuckDB. A word that is none of these is a name.
const DUCKDB = {
  keywords: "all and anti any as asc asof between both by case cast collate columns cross cube current desc describe "
    + "distinct else end escape except exclude exists extract false fetch filter first following for from full glob group "
    + "grouping groups having ilike in inner intersect interval into is isnull join last lateral left like limit natural "
    + "not notnull nulls offset on only or order ordinality outer over partition percent pivot positional preceding "
    + "qualify range recursive replace respect right rollup row rows sample select semi sets similar some struct "
    + "summarize table tablesample then ties to true try_cast unbounded union unique unpivot using values when where "
    + "window with within without",
  types: "array bigint bit blob boolean date decimal double float hugeint integer json list map real smallint text time "
    + "timestamp timestamptz tinyint ubigint uinteger union usmallint utinyint uuid varchar",
  builtin: "any_value approx_count_distinct arg_max arg_min avg coalesce concat count date_diff date_trunc dense_rank "
    + "first_value greatest ifnull lag last_value lead least length list_agg lower max median min mode ntile nullif "
    + "quantile_cont rank regexp_extract regexp_replace round row_number split_part stddev strftime string_agg strptime "
    + "substring sum trim unnest upper",
};

export async function mount(field) {
  const cm = await import(field.dataset.codemirror);
  const host = document.createElement("div");
  host.className = "editor";
  field.before(host);
  const shadow = host.attachShadow({ mode: "open" });
  const view = new cm.EditorView({ root: shadow, parent: shadow, state: stateOf(cm, field) });
  host.style.setProperty("--rows", field.rows);
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
      cm.lineNumbers(), cm.highlightSpecialChars(), cm.history(), cm.drawSelection(), cm.indentOnInput(), cm.lintGutter(),
      cm.bracketMatching(), cm.closeBrackets(), cm.highlightActiveLine(), cm.highlightSelectionMatches(),
      cm.indentUnit.of("  "), cm.EditorView.lineWrapping, theme(cm), cm.syntaxHighlighting(colours(cm)),
      isSql ? cm.sql({ dialect, upperCaseKeywords: true }) : cm.yaml(),
      isSql ? dialect.language.data.of({ autocomplete: tables(field) }) : [],
      cm.autocompletion({ icons: false, ...(isSql ? {} : { override: [keys(field)] }) }),
      cm.keymap.of([
        { key: "Mod-Enter", run: submit }, ...cm.closeBracketsKeymap, ...cm.completionKeymap, ...cm.historyKeymap,
        ...cm.searchKeymap, ...cm.lintKeymap, ...cm.defaultKeymap, // Tab leaves the editor, as it leaves every field
      ]),
      cm.EditorView.contentAttributes.of({ "aria-label": field.labels[0]?.textContent.trim() ?? "Text", spellcheck: "false" }),
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
    "&": { color: "var(--ink)", backgroundColor: "var(--ground)", fontSize: "12.5px" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: mono, lineHeight: "1.55", minHeight: "calc(var(--rows) * 1.55em + 10px)", maxHeight: "70vh", overflow: "auto" },
    ".cm-content": { caretColor: "var(--ink)", padding: "5px 0" },
    ".cm-cursor": { borderLeftColor: "var(--ink)" },
    ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--faint)", border: "none" },
    ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-ground) 45%, transparent)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-ground) !important" },
    ".cm-selectionMatch": { backgroundColor: "var(--stale-ground)" },
    "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-ground)", outline: "1px solid var(--accent)" },
    ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "6px", boxShadow: "var(--shadow)" },
    ".cm-tooltip-autocomplete > ul": { fontFamily: mono, maxHeight: "14em" },
    ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-ground)", color: "var(--accent)" },
    ".cm-completionInfo": { maxWidth: "320px", padding: "8px 10px", fontFamily: "system-ui, sans-serif" },
    ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", marginLeft: "10px" },
    ".cm-diagnostic": { fontFamily: "system-ui, sans-serif", padding: "6px 10px", maxWidth: "520px" },
    ".cm-diagnostic-error": { borderLeft: "3px solid var(--fail)" },
    ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--fail) 1.5px", textUnderlineOffset: "3px" },
    ".cm-lint-marker-error": { content: "normal", width: "8px", height: "8px", margin: "6px 3px", borderRadius: "50%", background: "var(--fail)" },
    ".cm-panels": { backgroundColor: "var(--card)", color: "var(--ink)" },
    ".cm-panels input, .cm-panels button": { font: "inherit", color: "var(--ink)", background: "var(--ground)", border: "1px solid var(--faint)" },
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
    return { from, to: from + word.length, severity: "error", message: [one.message, one.hint].filter(Boolean).join(" ") };
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
      const answer = await fetch(field.form.action, { method: "POST", body: new URLSearchParams(form), headers: { Accept: "application/json" } }).catch(() => null);
      if (!answer?.ok || number !== asked) return;
      const { problems } = await answer.json();
      editor.show(problems);
      told(problems);
    }, CHECK_MS);
  });
}

// --- completion: datasets by the search of the service, columns by their datasets

const kept = new Map();
function had(path) {
  if (!kept.has(path)) kept.set(path, fetch(path, { headers: { Accept: "application/json" } }).then((r) => r.ok ? r.json() : null, () => null));
  return kept.get(path);
}

async function datasets(field, word) {
  const found = await had(`/v1/search?q=${encodeURIComponent(word)}&branch=${encodeURIComponent(field.dataset.branch)}&limit=30`);
  return (found?.items ?? []).map((one) => ({ label: one.dataset, type: "class", detail: one.state.replaceAll("_", " "), info: one.description || undefined }));
}

async function columns(field, text) {
  const names = [...new Set(text.match(/\b[a-z]\w*\.[a-z]\w*\b/g) ?? [])].slice(0, 8);
  const base = `/v1/branches/${encodeURIComponent(field.dataset.branch)}/datasets/`;
  const found = await Promise.all(names.map((name) => had(base + name)));
  return found.flatMap((one) => (one?.schema?.fields ?? []).map((f) => ({ label: f.name, type: "property", detail: typeof f.type === "string" ? f.type : f.type.type })));
}

function tables(field) {
  return async (context) => {
    const word = context.matchBefore(/[\w.]+/);
    if (!word || (word.text.length < 2 && !context.explicit)) return null;
    const before = context.state.doc.sliceString(Math.max(0, word.from - 30), word.from);
    const isTable = /\b(from|join)\s+$/i.test(before) || word.text.includes(".");
    const options = isTable ? await datasets(field, word.text) : await columns(field, context.state.doc.toString());
    return { from: word.from, options, validFor: /^[\w.]*$/ };
  };
}

// --- completion of a blueprint, by its schema

function keys(field) {
  return async (context) => {
    const schema = await had("/schema/blueprint-v1.json"), doc = context.state.doc;
    const line = doc.lineAt(context.pos), before = line.text.slice(0, context.pos - line.from);
    const word = /[\w.]*$/.exec(before)[0], from = context.pos - word.length;
    if (!schema || (!word && !context.explicit)) return null;
    const { path, key } = placeOf(doc, line.number, before.slice(0, before.length - word.length));
    const nodes = at(schema, path);
    const options = key === null ? nodes.flatMap(keyOptions) : nodes.flatMap((node) => at(node, [key])).flatMap(valueOptions);
    if (key === "from" || key === "inputs" || path.at(-1) === "inputs" || path.at(-1) === "from") options.push(...await datasets(field, word));
    return { from, options: [...new Map(options.map((one) => [one.label, one])).values()], validFor: /^[\w.]*$/ };
  };
}

// The keys above a place, by indentation and braces; `key`: whose value it is, or null where a key begins.
function placeOf(doc, number, before) {
  const path = [], braces = [];
  let indent = /^\s*(- )?/.exec(before)[0].length;
  for (const part of before.matchAll(/([\w-]+):\s*\{|\{|\}/g)) {
    if (part[0] === "}") braces.pop(); else braces.push(part[1]);
  }
  const own = /^\s*(?:- )?([\w-]+):/.exec(before);
  for (let n = number - 1; n > 0 && indent > 0; n--) {
    const found = /^(\s*(?:- )?)([\w-]+):/.exec(doc.line(n).text);
    if (found && found[1].length < indent) { path.unshift(found[2]); indent = found[1].length; }
  }
  if (braces.length) {
    if (own && own[1] !== braces[0]) path.push(own[1]);
    path.push(...braces.filter(Boolean));
    return { path, key: /([\w-]+):\s*\[?[^,{}]*$/.exec(before.slice(before.lastIndexOf("{") + 1))?.[1] ?? null };
  }
  return { path, key: own ? own[1] : null };
}

const parts = (node) => node && typeof node === "object"
  ? [node, ...["then", "else"].flatMap((k) => parts(node[k])), ...["anyOf", "oneOf", "allOf"].flatMap((k) => (node[k] ?? []).flatMap(parts))] : [];
const at = (node, path) => path.reduce((nodes, key) => nodes.flatMap(parts).flatMap((one) => {
  const item = one.items && typeof one.items === "object" ? one.items : null;
  const of = [one, ...parts(item)].flatMap((o) => [o.properties?.[key] ?? (typeof o.additionalProperties === "object" ? o.additionalProperties : null)]);
  return of.filter(Boolean);
}), [node]).flatMap(parts);

const keyOptions = (node) => Object.entries(node.properties ?? node.items?.properties ?? {}).map(([name, one]) => (
  { label: name, type: "property", apply: `${name}: `, info: one.description, boost: (node.required ?? []).includes(name) ? 1 : 0 }));
const valueOptions = (node) => [...(node.enum ?? []), ...(node.const === undefined ? [] : [node.const]), ...(node.type === "boolean" ? [true, false] : []), ...(node.examples ?? [])]
  .filter((v) => ["string", "number", "boolean"].includes(typeof v)).map((v) => ({ label: String(v), type: "enum" }));

// --- the pages of queries and plans

export async function begin() {
  for (const field of all("[data-editor]")) {
    if (field.dataset.editor === "sql") await query(field);
    else await blueprint(field);
  }
}

async function blueprint(field) {
  const editor = await mount(field);
  const told = (problems) => { const sign = document.querySelector("[data-checked]"); if (sign) sign.textContent = problems.length ? `${problems.length} ${problems.length === 1 ? "problem" : "problems"}` : "no problems"; };
  editor.show(all("[data-problem]").map((one) => ({ line: +one.dataset.line, column: +one.dataset.column, message: one.dataset.message, hint: "" })));
  if (!field.form.querySelector("button[name=do]").disabled) checked(field, editor, told);
  document.addEventListener("click", (event) => {
    const place = event.target.closest?.("[data-problem] a");
    if (!place) return;
    event.preventDefault();
    const { line, column } = place.closest("[data-problem]").dataset;
    editor.goTo(+line, +column);
  });
}

// The text of a query is kept behind the # of the address, which no server sees, and what was asked in this tab's session.
const BEFORE = "headgate queries", MOST = 20;
const hashed = () => location.hash.startsWith("#q=") ? decodeURIComponent(location.hash.slice(3)) : null;

async function query(field) {
  const form = field.form, text = hashed();
  if (text !== null && !document.querySelector("#result > *")) field.value = text;
  const editor = await mount(field);
  const put = (value) => { if (value !== field.value) editor.view.dispatch({ changes: { from: 0, to: editor.view.state.doc.length, insert: value } }); };
  const problems = () => editor.show(all("#result [data-problem]").map((one) => ({ line: +one.dataset.line, column: +one.dataset.column, message: one.dataset.message, hint: "" })));
  form.addEventListener("submit", () => {
    form.elements.once.value = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
    if (hashed() !== field.value) history.pushState(null, "", `#q=${encodeURIComponent(field.value)}`);
    remember(field.value);
    list(put);
  }, { capture: true });
  addEventListener("hashchange", () => { if (hashed() !== null) put(hashed()); });
  document.addEventListener("htmx:after:swap", problems);
  list(put);
  problems();
}

const asked = () => { try { return JSON.parse(sessionStorage.getItem(BEFORE) ?? "[]"); } catch { return []; } };
const remember = (text) => { try { sessionStorage.setItem(BEFORE, JSON.stringify([text, ...asked().filter((one) => one !== text)].slice(0, MOST))); } catch { /* full, or not allowed */ } };

function list(put) {
  const box = document.querySelector("[data-asked-before]"), texts = asked();
  box.hidden = !texts.length;
  box.querySelector("ol").replaceChildren(...texts.map((text) => {
    const row = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = text.length > 160 ? `${text.slice(0, 160)} ...` : text;
    button.addEventListener("click", () => put(text));
    row.append(button);
    return row;
  }));
}
