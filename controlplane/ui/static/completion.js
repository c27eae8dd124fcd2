// What an editor proposes: datasets and columns as the service knows them, keys of a blueprint by its schema.

// What one writes in a SELECT of DuckDB. A word that is none of these is a name.
export const DUCKDB = {
  keywords: "all and anti any as asc asof between both by case cast collate columns cross cube current desc describe "
    + "distinct else end escape except exclude exists extract false fetch filter first following for from full glob "
    + "group grouping groups having ilike in inner intersect interval into is isnull join last lateral left like limit "
    + "natural not notnull nulls offset on only or order ordinality outer over partition percent pivot positional "
    + "preceding qualify range recursive replace respect right rollup row rows sample select semi sets similar some "
    + "struct summarize table tablesample then ties to true try_cast unbounded union unique unpivot using values when "
    + "where window with within without",
  types: "array bigint bit blob boolean date decimal double float hugeint integer json list map real smallint text "
    + "time timestamp timestamptz tinyint ubigint uinteger union usmallint utinyint uuid varchar",
  builtin: "any_value approx_count_distinct arg_max arg_min avg coalesce concat count date_diff date_trunc dense_rank "
    + "first_value greatest ifnull lag last_value lead least length list_agg lower max median min mode ntile nullif "
    + "quantile_cont rank regexp_extract regexp_replace round row_number split_part stddev strftime string_agg "
    + "strptime substring sum trim unnest upper",
};

// --- what the service has, asked for once on a page

const kept = new Map();

function had(path) {
  const ask = () => fetch(path, { headers: { Accept: "application/json" } });
  if (!kept.has(path)) kept.set(path, ask().then((answer) => (answer.ok ? answer.json() : null)).catch(() => null));
  return kept.get(path);
}

async function datasets(field, word) {
  const branch = encodeURIComponent(field.dataset.branch);
  const found = await had(`/v1/search?q=${encodeURIComponent(word)}&branch=${branch}&limit=30`);
  return (found?.items ?? []).map((one) => (
    { label: one.dataset, type: "class", detail: one.state.replaceAll("_", " "), info: one.description || undefined }));
}

// Of the datasets that a text names.
async function columns(field, text) {
  const names = [...new Set(text.match(/\b[a-z]\w*\.[a-z]\w*\b/g) ?? [])].slice(0, 8);
  const base = `/v1/branches/${encodeURIComponent(field.dataset.branch)}/datasets/`;
  const found = await Promise.all(names.map((name) => had(base + name)));
  const typeOf = (one) => (typeof one.type === "string" ? one.type : one.type.type);
  return found.flatMap((one) => one?.schema?.fields ?? [])
    .map((one) => ({ label: one.name, type: "property", detail: typeOf(one), boost: 1 }));
}

// --- in a query

export function tables(field) {
  return async (context) => {
    const word = context.matchBefore(/[\w.]+/);
    if (!word || (word.text.length < 2 && !context.explicit)) return null;
    const before = context.state.doc.sliceString(Math.max(0, word.from - 30), word.from);
    const isTable = /\b(from|join)\s+$/i.test(before) || word.text.includes(".");
    const options = isTable ? await datasets(field, word.text) : await columns(field, context.state.doc.toString());
    if (!context.view?.hasFocus) return null; // who has gone on wants nothing
    return { from: word.from, options, validFor: /^[\w.]*$/ };
  };
}

// --- in a blueprint

export function keys(field) {
  return async (context) => {
    const schema = await had("/schema/blueprint-v1.json"), doc = context.state.doc;
    const line = doc.lineAt(context.pos), before = line.text.slice(0, context.pos - line.from);
    const word = /[\w.]*$/.exec(before)[0];
    if (!schema || (!word && !context.explicit)) return null;
    const { path, key } = placeOf(doc, line.number, before.slice(0, before.length - word.length));
    const nodes = at([schema], path);
    const options = key === null ? nodes.flatMap(keyOptions) : at(nodes, [key]).flatMap(valueOptions);
    if (["from", "inputs"].includes(key ?? path.at(-1))) options.push(...await datasets(field, word));
    if (!context.view?.hasFocus) return null;
    const once = [...new Map(options.map((one) => [one.label, one])).values()];
    return { from: context.pos - word.length, options: once, validFor: /^[\w.]*$/ };
  };
}

// The keys above a place, by indentation and braces; `key`: whose value it is, or null where a key begins.
function placeOf(doc, number, before) {
  const path = [], braces = [];
  let indent = /^\s*(- )?/.exec(before)[0].length;
  for (let n = number - 1; n > 0 && indent > 0; n--) {
    const found = /^(\s*(?:- )?)([\w-]+):/.exec(doc.line(n).text);
    if (found && found[1].length < indent) { path.unshift(found[2]); indent = found[1].length; }
  }
  for (const part of before.matchAll(/([\w-]+):\s*\{|\{|\}/g)) {
    if (part[0] === "}") braces.pop();
    else braces.push(part[1]);
  }
  const own = /^\s*(?:- )?([\w-]+):/.exec(before)?.[1] ?? null;
  if (!braces.length) return { path, key: own };
  if (own && own !== braces[0]) path.push(own);
  path.push(...braces.filter(Boolean));
  const within = before.slice(before.lastIndexOf("{") + 1);
  return { path, key: /([\w-]+):\s*\[?[^,{}]*$/.exec(within)?.[1] ?? null };
}

// A schema with all that it is put together of.
function parts(node) {
  if (!node || typeof node !== "object") return [];
  const others = [node.then, node.else, ...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])];
  return [node, ...others.flatMap(parts), ...parts(node.items)];
}

// What schemas say of the value behind a path of keys.
function at(nodes, path) {
  const whole = nodes.flatMap(parts);
  if (!path.length) return whole;
  const [key, ...rest] = path;
  return at(whole.map((one) => one.properties?.[key] ?? one.additionalProperties), rest);
}

function keyOptions(node) {
  return Object.entries(node.properties ?? {}).map(([name, one]) => ({
    label: name, type: "property", apply: `${name}: `, info: one.description,
    boost: (node.required ?? []).includes(name) ? 1 : 0,
  }));
}

function valueOptions(node) {
  const values = [...(node.enum ?? []), node.const, ...(node.type === "boolean" ? [true, false] : [])];
  return [...values, ...(node.examples ?? [])]
    .filter((value) => ["string", "number", "boolean"].includes(typeof value))
    .map((value) => ({ label: String(value), type: "enum" }));
}
