"use strict";
// A decision is sent when its key is pressed, and the next question is shown when the answer says that it is written:
// what has left the screen is never lost. A key that is pressed meanwhile would be about a question not shown yet.

const PAUSE = 300;
const HEADING = /^(#{1,6} .*)$/m;
const SIGNS = {pending: "·", accepted: "✓", mended: "✎", rejected: "✗"};
const at = id => document.getElementById(id);
const drafts = new Map();
const decided = [];
let order = [], reasons = [], current = null, busy = false, editing = null, typing = 0, lost = false, shown = 0, keeping = Promise.resolve();

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// ---- talking to the command

class Refused extends Error {
  constructor(status, values) { super(values.error || `status ${status}`); this.status = status; this.values = values; }
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), keepalive: true,
  };
  let reply, values;
  try {
    reply = await fetch(path, options);
    values = await reply.json();
  } catch (error) {
    lose();
    throw error;
  }
  if (lost) { lost = false; tell(""); saved("saved"); }
  if (!reply.ok) throw new Refused(reply.status, values);
  return values;
}

function lose() {
  lost = true;
  saved("lost");
  tell("The command that serves this page does not answer. Every decision that has left the screen is kept. " +
       "Start the command again, and open the address that it prints.", true);
}

function saved(state) {
  at("saved").className = state;
  at("saved").textContent = {saved: "all saved", saving: "saving", lost: "not connected", typing: "typing"}[state];
}

let quiet = 0;
function tell(text, bad = false) {
  clearTimeout(quiet);
  at("notice").hidden = !text;
  at("notice").textContent = text;
  at("notice").classList.toggle("bad", bad);
  if (text && !bad) quiet = setTimeout(() => tell(""), 8000);
}

// ---- which questions, in which order

function wanted() {
  const state = at("by-state").value, type = at("by-type").value, method = at("by-method").value;
  return order.map(id => drafts.get(id)).filter(draft =>
    (!state || draft.state === state || (state === "decided" && draft.state !== "pending") ||
     (current && draft.id === current.id)) &&
    (!type || draft.type === type) && (!method || draft.method === method));
}

function ofFilter() {
  const type = at("by-type").value, method = at("by-method").value;
  return order.map(id => drafts.get(id)).filter(draft =>
    (!type || draft.type === type) && (!method || draft.method === method));
}

function nextPending(from) {
  const all = ofFilter(), place = all.findIndex(draft => draft.id === from);
  const turned = [...all.slice(place + 1), ...all.slice(0, Math.max(place, 0))];
  return turned.find(draft => draft.state === "pending");
}

function step(by) {
  const all = wanted();
  if (!all.length) return;
  const place = current ? all.findIndex(draft => draft.id === current.id) : -1;
  show(all[Math.min(all.length - 1, Math.max(0, place + by))].id);
}

function options(select, label, values, names = {}) {
  const chosen = select.value;
  select.replaceChildren(new Option(label, ""), ...values.map(value => new Option(Object.hasOwn(names, value) ? names[value] : value, value)));
  select.value = values.includes(chosen) ? chosen : "";
}

function take(draft) {
  if (!drafts.has(draft.id)) order.push(draft.id);
  drafts.set(draft.id, draft);
}

// ---- the page

function overview() {
  const all = [...drafts.values()], count = {pending: 0, accepted: 0, mended: 0, rejected: 0};
  for (const draft of all) count[draft.state] += 1;
  for (const bar of at("progress").children) bar.style.width = `${100 * count[bar.className] / (all.length || 1)}%`;
  const gone = all.length - count.pending;
  at("progress").setAttribute("aria-label", `${gone} of ${all.length} reviewed`);
  at("counts").replaceChildren(element("b", `${gone} of ${all.length} reviewed`),
    ...["accepted", "mended", "rejected"].map(state => element("span", `${count[state]} ${state}`, state)),
    element("span", `${count.pending} to go`));
  document.title = `${gone}/${all.length} reviewed`;
  options(at("by-type"), "all types", [...new Set(all.map(draft => draft.type))].sort());
  options(at("by-method"), "all methods", [...new Set(all.map(draft => draft.method))].sort());
  at("list").replaceChildren(...wanted().map(line));
  at("list").querySelector("[aria-current]")?.scrollIntoView({block: "nearest"});
}

function line(draft) {
  const item = element("li"), button = element("button", "", draft.state);
  button.append(element("b", SIGNS[draft.state]), element("span", draft.question));
  button.title = draft.state;
  if (current && draft.id === current.id) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => { at("side").classList.remove("open"); show(draft.id); });
  item.append(button);
  return item;
}

async function show(id, more = 0) {
  await flush();
  if (id === undefined) { finished(); return; }
  const mine = ++shown;  // of two that are asked for the later one is shown, whichever comes last
  let draft;
  try {
    draft = await ask(`draft?${new URLSearchParams({id, more})}`);
  } catch (error) {
    if (error instanceof Refused) tell(error.message, true);
    return;
  }
  if (mine !== shown) return;
  const again = current && current.id === id && editing;
  current = draft;
  take(draft);
  at("done").hidden = true;
  at("card").hidden = at("actions").hidden = false;
  if (!again) { editing = null; scrollTo(0, 0); }
  render();
  if (!again && draft.typed) {
    mend(draft.typed);
    if (draft.typed.stale) tell("The question was changed since this was typed: compare before you save.");
  }
}

function render() {
  const draft = current, place = ofFilter().findIndex(one => one.id === draft.id) + 1;
  at("question").textContent = draft.question;
  at("answer").textContent = draft.answer || (draft.answerable ? "" : "The documents do not say.");
  at("answer-block").hidden = !at("answer").textContent;
  const chips = [element("span", draft.type), element("span", draft.method)];
  if (!draft.answerable) chips.push(element("span", "said to be unanswerable", "unanswerable"));
  if (draft.state !== "pending") {
    const why = draft.state === "rejected" ? `: ${draft.reason}` : "";
    chips.unshift(element("span", `${SIGNS[draft.state]} ${draft.state} by ${draft.reviewer || "a reviewer"}${why}`, draft.state));
  }
  at("chips").replaceChildren(...chips);
  at("place").textContent = `as number ${place} of ${ofFilter().length}: doubt ${draft.doubt.toFixed(2)}`;
  at("why").replaceChildren(...(draft.why.length ? draft.why : ["nothing speaks against it"]).map(text => element("li", text)));
  at("passages").replaceChildren(...draft.passages.map(passage));
  at("more").hidden = draft.whole || !draft.passages.length;
  at("undo").disabled = !decided.length && draft.state === "pending";
  at("reading").hidden = at("why-block").hidden = at("deciding").hidden = Boolean(editing);
  at("mending").hidden = at("saving").hidden = !editing;
  at("question").className = draft.question.length > 140 ? "long" : "";
  if (editing) quotes();
  overview();
}

function passage(part) {
  const made = element("div", "", "passage"), head = element("h3"), text = element("div", "", "text");
  made.dataset.doc = part.doc;
  head.append(element("b", part.title), element("small", part.title === part.doc ? "" : part.doc));
  const added = (editing ? editing.evidence : []).filter(item => item.doc === part.doc)
    .map(item => ({start: item.start, end: item.start + [...item.text].length}));
  for (const piece of part.pieces) {
    const kept = piece.marks.some(mark => !editing || editing.evidence.includes(mark));
    const characters = [...piece.text], end = piece.start + characters.length;
    const cuts = [piece.start, ...added.flatMap(quote => [quote.start, quote.end]), end];
    const places = [...new Set(cuts)].filter(cut => cut >= piece.start && cut <= end).sort((one, other) => one - other);
    for (let i = 0; i + 1 < places.length; i += 1) {
      const quoted = kept || added.some(quote => quote.start <= places[i] && places[i] < quote.end);
      const some = characters.slice(places[i] - piece.start, places[i + 1] - piece.start).join("");
      append(text, places[i], some, quoted ? "quoted" : piece.marks.length ? "dropped" : "");
    }
  }
  if (part.start > 0) text.classList.add("cut-before");
  if (!part.whole) text.classList.add("cut-after");
  made.append(head, text);
  return made;
}

function append(box, start, text, mark) {
  for (const part of text.split(HEADING)) {  // every other part is a heading
    if (!part) continue;
    const span = element(mark ? "mark" : "span", part, mark);
    if (/^#{1,6} /.test(part)) span.classList.add("heading");
    span.dataset.start = start;
    box.append(span);
    start += [...part].length;
  }
}

function finished() {
  current = null;
  at("card").hidden = at("actions").hidden = true;
  at("done").hidden = false;
  const all = [...drafts.values()], left = all.filter(draft => draft.state === "pending").length;
  at("done-title").textContent = left ? "Nothing to go among these." : `All ${all.length} questions are reviewed.`;
  at("done-text").textContent = left
    ? `${left} questions of other types or methods are to go: choose them in the list.`
    : "What was accepted or mended stands in questions.jsonl, what was rejected in rejected.jsonl.\n" +
      "Next: ragsmith dataset check, then ragsmith search.";
  overview();
}

// ---- decisions

async function send(path, body) {
  busy = true;
  saved("saving");
  await keeping;
  try {
    const reply = await ask(path, {id: current.id, seen: current.seen, ...body});
    take(reply.draft);
    saved("saved");
    return reply.draft;
  } catch (error) {
    if (error instanceof Refused) {
      saved("saved");
      if (error.status === 409) await meanwhile(error);
      else if (error.status === 422) problems(error.values.problems);
      else tell(error.message, true);
    }
    return null;
  } finally {
    busy = false;
  }
}

async function meanwhile(error) {
  const there = error.values.draft;
  take(there);
  if (editing) { problems([error.message]); current.seen = there.seen; overview(); return; }
  tell(error.message);
  await show(there.id);
}

async function decide(decision, more = {}) {
  if (busy || !current) return;
  clearTimeout(typing);
  const id = current.id, draft = await send("decide", {decision, ...more});
  if (!draft) return;
  decided.push(id);
  editing = null;
  const next = nextPending(id);
  busy = true;
  try { await show(next?.id); } finally { busy = false; }
}

async function undo() {
  if (busy) return;
  const last = decided.pop() ?? (current && current.state !== "pending" ? current.id : undefined);
  if (last === undefined) return;
  busy = true;
  await show(last);
  busy = false;
  if (current && current.id === last && current.state !== "pending") {
    if (await send("reopen", {})) await show(last);
  }
}

// ---- mending

function mend(typed = null) {
  if (!current || editing) return;
  editing = {evidence: typed?.evidence ?? current.evidence.map(entry => entry.entry)};
  render();
  at("new-question").value = typed?.question ?? current.question;
  at("new-answer").value = typed?.answer ?? current.answer;
  problems([]);
  at("new-question").focus();
  at("new-question").setSelectionRange(1e6, 1e6);
}

function mending() {
  return {question: at("new-question").value, answer: at("new-answer").value, evidence: editing.evidence};
}

function quotes() {
  at("quotes").replaceChildren(...editing.evidence.map((item, place) => {
    const entry = typeof item === "number" ? current.evidence[item] : item;
    const made = element("li"), remove = element("button", "×");
    remove.type = "button";
    remove.title = "Remove this quote";
    remove.addEventListener("click", () => { editing.evidence.splice(place, 1); typed(); render(); });
    made.append(element("span", entry.text || `${entry.doc} ${Object.entries(entry.part).flat().join(" ")}`), remove);
    return made;
  }));
}

function problems(found) {
  at("problems").hidden = !found.length;
  at("problems").replaceChildren(...found.map(text => element("li", text)));
  if (found.length) tell("");
}

function typed() {
  saved("typing");
  clearTimeout(typing);
  typing = setTimeout(keep, PAUSE);
}

function keep(what = editing && mending()) {
  typing = 0;
  if (!current || !what) return keeping;
  const draft = current;
  keeping = keeping.then(() => put(draft, what));  // one after the other, and a decision after all of them
  return keeping;
}

async function put(draft, what, again = true) {
  try {
    await ask("begin", {id: draft.id, seen: draft.seen, ...what});
    if (!typing) saved("saved");
  } catch (error) {
    if (!(error instanceof Refused)) return;
    if (error.status !== 409 || !again) { tell(error.message, true); return; }
    tell(error.message);
    take(error.values.draft);
    draft.seen = error.values.draft.seen;
    await put(draft, what, false);
  }
}

async function flush() {
  if (!typing) return;
  clearTimeout(typing);
  await keep();
}

async function leave() {
  clearTimeout(typing);
  typing = 0;
  editing = null;
  at("quoting").hidden = true;
  render();
  await keep({});
  if (current) current.typed = null;
}

// ---- quoting what is selected

function selected() {
  const selection = getSelection();
  if (!current || !selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  const from = point(range.startContainer, range.startOffset), to = point(range.endContainer, range.endOffset);
  if (!from || !to || from.passage !== to.passage || to.at <= from.at) return null;
  const whole = [...from.passage.querySelectorAll("[data-start]")].map(piece => piece.textContent).join("");
  const first = Number(from.passage.querySelector("[data-start]").dataset.start);
  const characters = [...whole];  // offsets count code points, and strings here count UTF-16 units
  let start = from.at - first, end = to.at - first;
  while (start < end && !characters[start].trim()) start += 1;
  while (end > start && !characters[end - 1].trim()) end -= 1;
  if (start === end) return null;
  return {doc: from.passage.dataset.doc, text: characters.slice(start, end).join(""), start: start + first};
}

function point(node, offset) {
  const box = (node.nodeType === Node.TEXT_NODE ? node.parentElement : node).closest?.(".passage");
  if (!box) return null;
  const pieces = [...box.querySelectorAll("[data-start]")], range = document.createRange();
  range.setStart(pieces[0], 0);
  try { range.setEnd(node, offset); } catch { return null; }
  let length = 0;
  for (const piece of pieces) {
    const text = piece.firstChild;
    if (!text) continue;
    if (node === text) { length += [...text.data.slice(0, offset)].length; break; }
    const after = document.createRange();
    after.selectNodeContents(piece);
    if (range.compareBoundaryPoints(Range.END_TO_END, after) < 0) break;
    length += [...text.data].length;
  }
  return {passage: box, at: Number(pieces[0].dataset.start) + length};
}

function offer() {
  const found = selected();
  at("quoting").hidden = !found;
  if (!found) return;
  const box = getSelection().getRangeAt(0).getBoundingClientRect(), bar = at("quoting");
  bar.style.top = `${scrollY + box.bottom + 8}px`;
  bar.style.left = `${Math.max(8, Math.min(innerWidth - bar.offsetWidth - 8, box.left))}px`;
}

function quote(also) {
  const found = selected();
  if (!found) return;
  if (!editing) mend();
  editing.evidence = also ? [...editing.evidence, found] : [found];
  getSelection().removeAllRanges();
  at("quoting").hidden = true;
  typed();
  render();
}

// ---- keys

const KEYS = {
  a: () => decide("accept"), e: () => mend(), r: () => decide("reject"), u: undo, m: () => current && show(current.id, current.more + 1),
  q: () => quote(false), ArrowLeft: () => busy || step(-1), ArrowRight: () => busy || step(1), "?": () => at("keys").showModal(),
  l: () => at("toggle").click(), n: () => busy || show(nextPending(current?.id)?.id),
};

document.addEventListener("keydown", event => {
  if (at("keys").open) return;
  if (event.key === "Escape") {
    at("reasons").hidden = true;
    if (editing) { event.preventDefault(); leave(); }
    return;
  }
  if (editing && event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input, textarea, select")) return;
  if (editing && event.key !== "q") return;
  const number = Number(event.key);
  if (current && number >= 1 && number <= reasons.length) {
    event.preventDefault();
    decide("reject", {reason: reasons[number - 1]});
  } else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

function submit() { if (!busy) decide("mend", mending()); }

function listen(id, event, act) { at(id).addEventListener(event, act); }

listen("accept", "click", KEYS.a);
listen("mend", "click", () => editing ? at("new-question").focus() : mend());
listen("reject", "click", KEYS.r);
listen("undo", "click", undo);
listen("previous", "click", KEYS.ArrowLeft);
listen("next", "click", KEYS.ArrowRight);
listen("more", "click", KEYS.m);
listen("help", "click", KEYS["?"]);
listen("cancel", "click", leave);
listen("save", "click", submit);
listen("mending", "submit", event => { event.preventDefault(); submit(); });
listen("new-question", "input", typed);
listen("new-answer", "input", typed);
listen("quote-only", "mousedown", event => event.preventDefault());
listen("quote-too", "mousedown", event => event.preventDefault());
listen("quote-only", "click", () => quote(false));
listen("quote-too", "click", () => quote(true));
listen("why-not", "click", () => {
  at("reasons").hidden = !at("reasons").hidden;
  at("why-not").setAttribute("aria-expanded", String(!at("reasons").hidden));
});
document.addEventListener("click", event => {
  if (event.target.closest(".split")) return;
  at("reasons").hidden = true;
  at("why-not").setAttribute("aria-expanded", "false");
});
listen("toggle", "click", () => at("toggle").setAttribute("aria-expanded", String(at("side").classList.toggle("open"))));
for (const id of ["finish", "finish-now"]) listen(id, "click", async () => {
  await ask("finish", {});
  document.body.replaceChildren(element("main", "The review has ended; everything is kept. This tab can be closed."));
});
for (const id of ["by-state", "by-type", "by-method"]) {
  listen(id, "change", () => {
    const first = wanted().find(draft => !current || draft.id !== current.id) || wanted()[0], type = at("by-type").value;
    const fits = current && (!type || current.type === type) && (!at("by-method").value || current.method === at("by-method").value);
    if (fits) overview(); else show(first?.id);
    at(id).blur();
  });
}
document.addEventListener("selectionchange", offer);
addEventListener("pagehide", () => { flush(); });

async function begin() {
  const state = await ask("state");
  reasons = state.reasons;
  at("name").textContent = state.name;
  at("reviewer").textContent = state.reviewer;
  options(at("by-state"), "all questions", ["pending", "decided", "accepted", "mended", "rejected"],
    {pending: "to go", decided: "reviewed"});
  for (const draft of state.drafts) take(draft);
  const why = (text, place) => {
    const made = element("button");
    made.append(element("kbd", String(place + 1)), text);
    made.addEventListener("click", () => { at("reasons").hidden = true; decide("reject", {reason: text}); });
    return made;
  };
  at("reasons").append(...reasons.map(why));
  at("key-reasons").append(...reasons.map(text => element("li", text)));
  saved("saved");
  await show(nextPending(undefined)?.id);
}

begin().catch(error => { if (error instanceof Refused) tell(error.message, true); });
